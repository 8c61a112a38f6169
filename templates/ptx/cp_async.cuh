// cp.async: 16 bytes from global to shared memory, in groups that complete in order.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

KDA_DEVICE void cp_async_16(u32 shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

KDA_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `pending` of this thread's groups are in flight.
template <int pending>
KDA_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace kda::ptx
