#include "strategy/pool_states.hpp"

#include <fmt/format.h>

namespace kda::strategy {

Status check_pool_states(std::string_view name, const Problem& problem) {
  if (!problem.draft_states) return {};
  return {
      Code::unsupported,
      fmt::format("strategy {}: draft_states want the state after every token, a chunk computes "
                  "the one after its last; recurrent serves them",
                  name)};
}

Status check_checkpoints(std::string_view name, const Problem& problem, int chunk) {
  if (problem.checkpoint_tokens % chunk == 0) return {};
  return {Code::unsupported,
          fmt::format("strategy {}: checkpoint_tokens={} is not a multiple of chunk={}", name,
                      problem.checkpoint_tokens, chunk)};
}

}  // namespace kda::strategy
