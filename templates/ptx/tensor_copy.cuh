// cp.async.bulk.tensor: a box of a tensor to and from shared memory, by one thread.  What lies past
// the tensor's ends comes as zeros and is not written.
#pragma once

#include "abi/tensor_map.h"
#include "base/types.cuh"

namespace kda::ptx {

// Where a box begins.
struct Corner {
  int token, slab, head, n;
};

// The barrier is told of the box's bytes as they land.
KDA_DEVICE void tensor_load(u32 shared, const abi::TensorMap& map, Corner at, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(shared),
      "l"(&map), "n"(0), "r"(at.token), "r"(at.slab), "r"(at.head), "r"(at.n), "r"(barrier)
      : "memory");
}

// policy: of ptx/l2_policy.cuh.
KDA_DEVICE void tensor_load(u32 shared, const abi::TensorMap& map, Corner at, u32 barrier,
                            u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(shared),
      "l"(&map), "n"(0), "r"(at.token), "r"(at.slab), "r"(at.head), "r"(at.n), "r"(barrier),
      "l"(policy)
      : "memory");
}

// The box into the L2.
KDA_DEVICE void tensor_prefetch(const abi::TensorMap& map, Corner at) {
  asm volatile(
      "cp.async.bulk.prefetch.tensor.5d.L2.global.tile [%0, {%1, %2, %3, %4, %5}];" ::"l"(&map),
      "n"(0), "r"(at.token), "r"(at.slab), "r"(at.head), "r"(at.n)
      : "memory");
}

// In the thread's group of bulk stores (ptx/bulk.cuh).  at: coordinates as the map has them,
// innermost first.
KDA_DEVICE void tensor_store(const abi::TensorMap& map, const int (&at)[5], u32 shared) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4, %5}], "
      "[%6];" ::"l"(&map),
      "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(shared)
      : "memory");
}
KDA_DEVICE void tensor_store(const abi::TensorMap& map, Corner at, u32 shared) {
  tensor_store(map, {0, at.token, at.slab, at.head, at.n}, shared);
}
KDA_DEVICE void tensor_store(const abi::TensorMap& map, Corner at, u32 shared, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%1, %2, "
      "%3, %4, %5}], [%6], %7;" ::"l"(&map),
      "n"(0), "r"(at.token), "r"(at.slab), "r"(at.head), "r"(at.n), "r"(shared), "l"(policy)
      : "memory");
}

}  // namespace kda::ptx
