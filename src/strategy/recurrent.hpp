// Token by token: decode, very short sequences, the yardstick inside the library.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {
extern const Strategy recurrent;
}
