// The whole measurement: problems by variants, verified, timed, reported.
#pragma once

#include "bench/options.hpp"

namespace kda::bench {

// Answers the exit code; throws Failure.
int run(const Options& options);

}  // namespace kda::bench
