// How many of a later segment's first chunks have their factors kept, where states are carried by
// them (abi::fused::Kept).
#pragma once

#include "abi/by_gates.h"
#include "base/types.cuh"

namespace kda {

// weak: what the look at gates has found; most: where that is something.  A whole warp asks.
KDA_DEVICE int kept_chunks(const u32* weak, int most) {
  u32 found = 0;
#pragma unroll
  for (u32 i = 0; i < abi::by_gates::blocks; i += 32) {
    found |= __ldcg(weak + i + threadIdx.x % 32);
  }
  if (__any_sync(0xffffffffU, found != 0) != 0) return most;
  return smaller(abi::by_gates::kept_where_strong, most);
}

}  // namespace kda
