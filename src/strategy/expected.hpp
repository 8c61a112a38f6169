// What a strategy is expected to take of a problem that may not say how its sequences differ.
#pragma once

#include <string>

#include "strategy/strategy.hpp"

namespace kda::strategy {

// Whether the times expected are means of what the problem may turn out to be, so that no run takes
// them; in words for people, or empty.
std::string expected_of_what(const Problem& problem);

// GPU microseconds at max_tokens: orders candidates, promises nothing.
double expected_microseconds(const Strategy& strategy, const Problem& problem,
                             const device::Device& device, const tunable::Values& values);

}  // namespace kda::strategy
