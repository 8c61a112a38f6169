// Blocks of a cluster: who they are, each other's shared memory, and where they meet.
#pragma once

#include "base/compiler.cuh"
#include "base/types.cuh"

namespace kda::ptx {

// The same place in another block's shared memory, in the cluster's window.
KDA_DEVICE u32 map_to(u32 address, u32 rank) {
  u32 r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
  return r;
}

// Until all threads of the cluster are here; what they wrote is visible then.
KDA_DEVICE void cluster_meet() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Arrivals that order nothing are of PTX 8.7, CUDA 12.8; before that they release, too, to their
// own block alone: to a cluster it takes 520 clocks.
#if KDA_CUDA_SINCE(12, 8)
#define KDA_ARRIVES "relaxed.cluster"
#else
#define KDA_ARRIVES "release.cta"
#endif

// Where a condition holds, arrives at a barrier of another block, without a branch, and orders
// nothing.
KDA_DEVICE void mbarrier_arrive_remote_if(bool holds, u32 mapped) {
  asm volatile(
      "{.reg .pred p;\n"
      "setp.ne.u32 p, %0, 0;\n"
      "@p mbarrier.arrive." KDA_ARRIVES
      ".shared::cluster.b64 _, [%1];}" ::"r"(static_cast<u32>(holds)),
      "r"(mapped)
      : "memory");
}

// Arrives, and announces `bytes` that copies will bring.
KDA_DEVICE void mbarrier_arrive_expecting_remote(u32 mapped, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx." KDA_ARRIVES
               ".shared::cluster.b64 _, [%0], %1;" ::"r"(mapped),
               "r"(bytes)
               : "memory");
}

// From this block's shared memory to another's, whose barrier counts the bytes; a multiple of 16.
KDA_DEVICE void bulk_push(u32 mapped, u32 shared, u32 bytes, u32 mapped_barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(mapped),
      "r"(shared), "r"(bytes), "r"(mapped_barrier)
      : "memory");
}

}  // namespace kda::ptx
