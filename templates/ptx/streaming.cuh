// 16 bytes of global memory that are used once.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

// First to leave the caches.
KDA_DEVICE uint4 load_streaming(const void* from) {
  uint4 x;
  asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from));
  return x;
}

KDA_DEVICE void store_streaming(void* to, uint4 x) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x.x), "r"(x.y),
               "r"(x.z), "r"(x.w)
               : "memory");
}

// They take no place in the L1.
KDA_DEVICE uint4 ld_global_once_u32x4(const void* from) {
  uint4 x;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from));
  return x;
}

}  // namespace kda::ptx
