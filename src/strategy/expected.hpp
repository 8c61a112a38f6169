// What a strategy is expected to take of a problem that may not say how its sequences differ.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {

// GPU microseconds at max_tokens: orders candidates, promises nothing.
double expected_microseconds(const Strategy& strategy, const Problem& problem,
                             const device::Device& device, const tunable::Values& values);

}  // namespace kda::strategy
