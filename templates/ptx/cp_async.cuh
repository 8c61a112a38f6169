// cp.async: 16 bytes from global to shared memory, in groups that complete in order.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

KDA_DEVICE void cp_async_16(u32 shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// policy: of ptx/l2_policy.cuh.
KDA_DEVICE void cp_async_16(u32 shared, const void* global, u64 policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(shared),
               "l"(global), "l"(policy)
               : "memory");
}

// Zeros instead where not `there`; then `global` is not read.
KDA_DEVICE void cp_async_16_or_zero(u32 shared, const void* global, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
               "r"(there ? 16 : 0)
               : "memory");
}

// Arrives at the mbarrier once this thread's copies so far have landed, as one of its arrivals.
KDA_DEVICE void cp_async_arrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

KDA_DEVICE void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

KDA_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `pending` of this thread's groups are in flight.
template <int pending>
KDA_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace kda::ptx
