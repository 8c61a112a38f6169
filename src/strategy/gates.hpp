// What is expected of gates, which nobody knows when a plan is made.
#pragma once

#include "kda/kda.hpp"

namespace kda::strategy {

// The share of runs whose gates are expected to forget within a few chunks: less than one in three,
// as many as of kda-bench's regimes, since one channel that hardly decays is enough that they do
// not. None of other gates than bounded ones, which models have had before: of theirs some channel
// always remembers.
inline double forget_share(const Problem& problem) {
  return problem.gate == Gate::bounded ? 0.25 : 0.0;
}

}  // namespace kda::strategy
