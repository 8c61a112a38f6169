// Token-parallel prepare, then head-parallel recurrence over the chunks.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {
extern const Strategy chunk;
}
