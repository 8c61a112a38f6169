// stmatrix (sm_90): 8x8 matrices of 16-bit elements from registers to shared memory.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

// Lane l of each group of 8 gives the address of a row of 16 bytes.
KDA_DEVICE void stmatrix_x4(u32 row, const u32* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(row),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

// The same of each matrix transposed: lane l's row is a column of it.
KDA_DEVICE void stmatrix_x4_trans(u32 row, const u32* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(row),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace kda::ptx
