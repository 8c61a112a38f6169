// TABLE: the strategies.  Order never decides; applicability and cost do.
#pragma once

#include <span>
#include <string_view>

#include "strategy/strategy.hpp"

namespace kda::strategy {

std::span<const Strategy> table();
// Null when there is none of that name.
const Strategy* find(std::string_view name);

}  // namespace kda::strategy
