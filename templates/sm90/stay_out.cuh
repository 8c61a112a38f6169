// How the blocks of a kernel end that has nothing to do (base/guard.cuh).
#pragma once

#include "base/guard.cuh"
#include "ptx/dependent.cuh"

namespace kda {

// Whether the block is to end at once.  What follows may begin; the run ends after what came
// before, for which one block waits.
template <abi::Shape shape, class Given>
KDA_DEVICE bool ends_at_once(const Given& given, const abi::Inputs& in) {
  if (!stays_out<shape>(given, in)) return false;
  ptx::launch_dependents();
  if (blockIdx.x == 0 && blockIdx.y == 0) ptx::wait_for_previous();
  return true;
}

}  // namespace kda
