// Strategy chunk_wgmma with each sequence cut into segments: few heads, long sequences.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {
extern const Strategy segments;
}
