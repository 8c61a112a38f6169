// What C++ callers may put into Options and no planner knows; kda.h's are checked as they are read.
#pragma once

#include "kda/kda.hpp"

namespace kda::api {

// Fails with invalid_argument, naming the field, its value and what it may be.
Status check(const Options& options);

}  // namespace kda::api
