// Barriers among some warps of a block.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

// `number` 1..15; 0 is __syncthreads.  `threads`: how many take part, whole warps.
KDA_DEVICE void barrier_wait(u32 number, u32 threads) {
  asm volatile("barrier.cta.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Comes to it and goes on.
KDA_DEVICE void barrier_arrive(u32 number, u32 threads) {
  asm volatile("barrier.cta.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// As barrier_wait; tells whether any thread voted yes.
KDA_DEVICE bool barrier_vote_any(u32 number, u32 threads, bool vote) {
  u32 r;
  asm volatile(
      "{.reg .pred p, q;\n"
      "setp.ne.u32 p, %3, 0;\n"
      "barrier.cta.red.or.pred q, %1, %2, p;\n"
      "selp.u32 %0, 1, 0, q;}"
      : "=r"(r)
      : "r"(number), "r"(threads), "r"(static_cast<u32>(vote))
      : "memory");
  return r != 0;
}

}  // namespace kda::ptx
