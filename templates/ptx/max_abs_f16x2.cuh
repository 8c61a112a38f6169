// max.xorsign.abs.f16x2: of two f16 by two the larger magnitudes, with signs that mean nothing.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

KDA_DEVICE u32 max_abs_f16x2(u32 a, u32 b) {
  u32 r;
  asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

}  // namespace kda::ptx
