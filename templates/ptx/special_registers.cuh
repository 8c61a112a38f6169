// Special registers read where it stands: what follows from them is not computed ahead of loops and
// held in registers across them.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

// threadIdx.x
KDA_DEVICE u32 thread_now() {
  u32 r;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(r));
  return r;
}

// gridDim.x
KDA_DEVICE u32 blocks_now() {
  u32 r;
  asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(r));
  return r;
}

// blockIdx.x
KDA_DEVICE u32 block_now() {
  u32 r;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(r));
  return r;
}

}  // namespace kda::ptx
