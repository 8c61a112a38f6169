// The whole measurement: problems by variants, verified, timed, reported.
#pragma once

#include "bench/request.hpp"

namespace kda::bench {

// Answers the exit code; throws Failure.
int run(const Request& request);

}  // namespace kda::bench
