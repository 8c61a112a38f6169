// Problem to abi::Shape, and a Forward to the abi structs its kernels take.
#pragma once

#include "abi/shape.h"
#include "abi/tensors.h"
#include "kda/kda.hpp"

namespace kda::problem {

// What the kernels bake in.  problem is complete.  What no kernel would read is left at its
// default, so that it does not split the cache.
abi::Shape shape_of(const Problem& problem);

// forward's strides are filled in (see fill_strides).
abi::Inputs inputs_of(const Problem& problem, const Forward& forward);
abi::Outputs outputs_of(const Problem& problem, const Forward& forward);

// Replaces all-zero strides by the contiguous ones.  forward has passed check.
void fill_strides(const Problem& problem, Forward& forward);

}  // namespace kda::problem
