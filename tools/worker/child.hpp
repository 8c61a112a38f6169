// The worker itself: `kda-tune worker`, a process of its own so that a kernel that faults or hangs
// takes nothing else with it.
#pragma once

#include <cstdio>
#include <string>

namespace kda::worker {

// Reads messages from `in` and answers on `out` until `in` ends.  Answers the exit code; throws
// nothing.
int serve(std::FILE* in, std::FILE* out, int device, const std::string& cache_dir);

}  // namespace kda::worker
