// Eight bytes of global memory in one store.  Left to the compiler, two stores of four may come of
// it, which write every sector of the L2 twice.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

KDA_DEVICE void st_global_f32x2(float* to, float lo, float hi) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(lo), "f"(hi) : "memory");
}

}  // namespace kda::ptx
