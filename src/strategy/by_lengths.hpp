// A pack whose sequences may be alike or of which one may have most of the tokens, as nobody has
// said (Problem::mixed_lengths): the kernels for both, of which a run's cu_seqlens decide.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {

extern const Strategy by_lengths;

}  // namespace kda::strategy
