// Strategy chunk with its recurrence on Hopper's warpgroup products.
#pragma once

#include <optional>

#include "strategy/strategy.hpp"

namespace kda::strategy {
extern const Strategy chunk_wgmma;

// The tuning that has both stages at once, and a third for short sequences; none where the chains
// would leave too little of the device to prepare.
std::optional<tunable::Values> short_and_long_at_once(const Problem& problem,
                                                      const device::Device& device);
}  // namespace kda::strategy
