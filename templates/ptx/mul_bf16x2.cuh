// mul.bf16x2: two bf16 by two.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

KDA_DEVICE u32 mul_bf16x2(u32 a, u32 b) {
  u32 r;
  asm("mul.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

}  // namespace kda::ptx
