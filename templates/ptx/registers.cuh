// setmaxnreg: registers a thread of a warpgroup, from those that others of the block have given up.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

template <int count>
KDA_DEVICE void give_up_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

template <int count>
KDA_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace kda::ptx
