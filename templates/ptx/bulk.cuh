// cp.async.bulk: contiguous bytes from global to shared memory, counted by an mbarrier.  Addresses
// and size are multiples of 16.
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

}  // namespace kda::ptx
