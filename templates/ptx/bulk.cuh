// cp.async.bulk: contiguous bytes between global and shared memory; loads are counted by an
// mbarrier. Addresses and size are multiples of 16.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

KDA_DEVICE void bulk_load(u32 shared, const void* global, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared),
      "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
}

// Orders this thread's writes to shared memory before reads of it by wgmma and bulk copies.
KDA_DEVICE void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// From shared memory to global; what other threads wrote is fenced by them, or by this thread once
// it has waited for them.
KDA_DEVICE void bulk_store(void* global, u32 shared, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(shared), "r"(bytes)
               : "memory");
}

KDA_DEVICE void bulk_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until this thread's committed stores, but for those of the last `pending` commits, have read
// shared memory.
template <int pending = 0>
KDA_DEVICE void bulk_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

// Until they are in global memory.
KDA_DEVICE void bulk_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

}  // namespace kda::ptx
