// Which states strategies that go by chunks can keep.
#pragma once

#include <string_view>

#include "kda/kda.hpp"

namespace kda::strategy {

// ok, or unsupported where the problem wants states inside chunks; `name` is the strategy's.
Status check_kept_states(std::string_view name, const Problem& problem);

// ok, or unsupported where a checkpoint falls inside a chunk of so many tokens.
Status check_checkpoints(std::string_view name, const Problem& problem, int chunk);

}  // namespace kda::strategy
