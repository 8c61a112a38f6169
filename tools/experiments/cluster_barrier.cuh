// Barriers of another block of the cluster: what the experiments on clusters share.
#pragma once

#include "base/types.cuh"

namespace kda {

// The address of another block's shared memory, in the cluster's window.
KDA_DEVICE u32 mapa(u32 address, u32 block) {
  u32 r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(block));
  return r;
}

template <bool release>
KDA_DEVICE void remote_arrive(u32 barrier) {
  if constexpr (release) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
                 : "memory");
  } else {
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
                 : "memory");
  }
}

KDA_DEVICE void wait_cluster(u32 barrier, u32 parity) {
  asm volatile(
      "{.reg .pred p;\n"
      "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
      "@p bra done;\n"
      "bra again;\n"
      "done:}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace kda
