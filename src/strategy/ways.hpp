// The ways that a strategy of several is made of, by their numbers in its tuning.
#pragma once

#include <array>
#include <cstddef>

#include "strategy/chunk_wgmma.hpp"
#include "strategy/fused.hpp"
#include "strategy/segments.hpp"

namespace kda::strategy {

inline constexpr std::array<const Strategy*, 3> kWays = {&fused, &chunk_wgmma, &segments};

// From 1 on.
inline const Strategy& way(int number) { return *kWays.at(static_cast<std::size_t>(number - 1)); }

}  // namespace kda::strategy
