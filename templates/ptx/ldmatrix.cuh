// Loads from shared memory: ldmatrix (8x8 matrices of 16-bit elements), plain f32; and movmatrix.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

KDA_DEVICE u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// Lane l of each group of 8 gives the address of a row of 16 bytes.
KDA_DEVICE void ldmatrix_x4(u32* r, u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

KDA_DEVICE void ldmatrix_x4_trans(u32* r, u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

KDA_DEVICE float ld_shared_f32(u32 address) {
  float r;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(r) : "r"(address) : "memory");
  return r;
}

KDA_DEVICE float2 ld_shared_f32x2(u32 address) {
  float2 r;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(r.x), "=f"(r.y) : "r"(address) : "memory");
  return r;
}

KDA_DEVICE void st_shared_u16(u32 address, u16 x) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(x) : "memory");
}

KDA_DEVICE void st_shared_f32(u32 address, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}

// The transpose of the warp's 8x8 matrix.
KDA_DEVICE u32 movmatrix_trans(u32 x) {
  u32 r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(x));
  return r;
}

}  // namespace kda::ptx
