// TABLE: the strategies.  Order never decides; applicability and cost do.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "strategy/strategy.hpp"

namespace kda::strategy {

std::span<const Strategy* const> table();
// Null when there is none of that name.
const Strategy* find(std::string_view name);
// "recurrent, chunk", for messages.
std::string known_names();

}  // namespace kda::strategy
