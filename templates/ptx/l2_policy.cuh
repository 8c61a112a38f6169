// How long what a copy moves stays in the L2.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

// Not longer than it must, so that what others will read stays.
KDA_DEVICE u64 createpolicy_evict_first() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

}  // namespace kda::ptx
