// mbarrier: arrivals and bytes counted in shared memory; waits by phase parity.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

KDA_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes the barrier memory again, that another may be initialised in.
KDA_DEVICE void mbarrier_inval(u32 barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Makes initialised barriers visible to the copy engine.
KDA_DEVICE void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

KDA_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The same where a condition holds, without a branch.
KDA_DEVICE void mbarrier_arrive_if(bool holds, u32 barrier) {
  asm volatile(
      "{.reg .pred p;\n"
      "setp.ne.u32 p, %0, 0;\n"
      "@p mbarrier.arrive.shared::cta.b64 _, [%1];}" ::"r"(static_cast<u32>(holds)),
      "r"(barrier)
      : "memory");
}

// Arrives and announces `bytes` that copies will bring; the phase waits for them.
KDA_DEVICE void mbarrier_arrive_expecting(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Whether the phase of that parity has completed.
KDA_DEVICE bool mbarrier_test(u32 barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{.reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// Until the phase of that parity has completed.
KDA_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{.reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra done;\n"
      "bra again;\n"
      "done:}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace kda::ptx
