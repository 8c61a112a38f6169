#include "strategy/kept_states.hpp"

#include <fmt/format.h>

namespace kda::strategy {

Status check_kept_states(std::string_view name, const Problem& problem) {
  const char* wanted = problem.draft_states ? "draft_states want the state after every token"
                       : problem.committed_tokens
                           ? "committed_tokens want the state after any token"
                           : nullptr;
  if (wanted == nullptr) return {};
  return {Code::unsupported,
          fmt::format("strategy {}: {}, a chunk computes the one after its last; recurrent serves "
                      "them",
                      name, wanted)};
}

Status check_checkpoints(std::string_view name, const Problem& problem, int chunk) {
  if (problem.checkpoint_tokens % chunk == 0) return {};
  return {Code::unsupported,
          fmt::format("strategy {}: checkpoint_tokens={} is not a multiple of chunk={}", name,
                      problem.checkpoint_tokens, chunk)};
}

}  // namespace kda::strategy
