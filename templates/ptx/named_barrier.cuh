// Barriers among some warps of a block, by number (0 is __syncthreads).
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

KDA_DEVICE void barrier_sync(u32 number, u32 threads) {
  asm volatile("barrier.cta.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

KDA_DEVICE void barrier_arrive(u32 number, u32 threads) {
  asm volatile("barrier.cta.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

}  // namespace kda::ptx
