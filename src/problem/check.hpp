// Whether a run's tensors fit the plan's problem.
#pragma once

#include "kda/kda.hpp"

namespace kda::problem {

// problem is complete; forward is as the caller gave it.  Fails with invalid_argument where forward
// contradicts the problem: sizes, null or misaligned pointers, strides, overlapping outputs.  Reads
// no device memory.
Status check(const Problem& problem, const Forward& forward);

}  // namespace kda::problem
