// Words of shared memory that one thread leaves for others, and 16 bytes at once.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

KDA_DEVICE u32 ld_shared_u32(u32 address) {
  u32 r;
  asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(r) : "r"(address) : "memory");
  return r;
}

KDA_DEVICE void st_shared_u32(u32 address, u32 x) {
  asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
}

KDA_DEVICE u16 ld_shared_u16(u32 address) {
  u16 r;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(r) : "r"(address) : "memory");
  return r;
}

KDA_DEVICE void st_shared_u32x2(u32 address, u32 x, u32 y) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(x), "r"(y) : "memory");
}

KDA_DEVICE uint4 ld_shared_u32x4(u32 address) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(address));
  return x;
}

KDA_DEVICE void st_shared_u32x4(u32 address, uint4 x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x.x), "r"(x.y),
               "r"(x.z), "r"(x.w)
               : "memory");
}

KDA_DEVICE float4 ld_shared_f32x4(u32 address) {
  float4 r;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w)
               : "r"(address)
               : "memory");
  return r;
}

}  // namespace kda::ptx
