// What Plan::make costs: kernels compiled, found on disk, found in memory.
#pragma once

#include "kda/kda.hpp"

namespace kda::bench {

struct MakeTime {
  double cold_ms = 0;    // into an empty cache: compiles, in parallel
  double disk_ms = 0;    // the same entries under another path, read and loaded anew
  double memory_us = 0;  // the same call again; median
};

// In a throw-away folder; options as the plan was made.  No plan for the same kernels may be alive,
// or its loaded code would be found; kept ones are forgotten.  Fails as Plan::make does.
Result<MakeTime> make_time(const Problem& problem, Options options);

}  // namespace kda::bench
