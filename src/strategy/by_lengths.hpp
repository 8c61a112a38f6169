// A pack whose sequences may be alike or of which one may have most of the tokens, as nobody has
// said (Problem::mixed_lengths): the kernels for both, of which a run's cu_seqlens decide.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {

extern const Strategy by_lengths;

// The share of a run's tokens that its longest sequence may have and still go the way for sequences
// that are alike: 1 where the other way is expected to be no better at any length.
double longest_alike(const Problem& problem, const device::Device& device,
                     const tunable::Values& values);

}  // namespace kda::strategy
