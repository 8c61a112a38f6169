// Strategy chunk with its recurrence on Hopper's warpgroup products.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {
extern const Strategy chunk_wgmma;
}
