// The ways that a strategy of several is made of, by their numbers in its tuning.
#pragma once

#include <array>
#include <cstddef>
#include <limits>

#include "strategy/chunk_wgmma.hpp"
#include "strategy/fused.hpp"
#include "strategy/segments.hpp"

namespace kda::strategy {

inline constexpr std::array<const Strategy*, 3> kWays = {&fused, &chunk_wgmma, &segments};

// From 1 on.
inline const Strategy& way(int number) { return *kWays.at(static_cast<std::size_t>(number - 1)); }

// Expected microseconds of a problem by the tuning that a strategy has for `planned`; infinite
// where it does not serve that.
inline double default_microseconds(const Strategy& strategy, const Problem& planned,
                                   const Problem& problem, const device::Device& device) {
  if (!strategy.applicable(planned, device)) return std::numeric_limits<double>::infinity();
  return strategy.estimate(problem, device, strategy.defaults(planned, device));
}

}  // namespace kda::strategy
