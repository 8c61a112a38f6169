// A load that may not take place, into the register where it is wanted: what the compiler makes of
// an `if` waits for the loaded to move it there.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

KDA_DEVICE void ld_global_if(int& x, const int* from, bool yes) {
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p ld.global.b32 %0, [%1]; }"
               : "+r"(x)
               : "l"(from), "r"(static_cast<int>(yes)));
}
KDA_DEVICE void ld_global_if(i64& x, const i64* from, bool yes) {
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p ld.global.b64 %0, [%1]; }"
               : "+l"(x)
               : "l"(from), "r"(static_cast<int>(yes)));
}

KDA_DEVICE void ld_global_if(float& x, const float* from, bool yes) {
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p ld.global.f32 %0, [%1]; }"
               : "+f"(x)
               : "l"(from), "r"(static_cast<int>(yes)));
}
KDA_DEVICE void ld_global_if(u16& x, const u16* from, bool yes) {
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p ld.global.u16 %0, [%1]; }"
               : "+h"(x)
               : "l"(from), "r"(static_cast<int>(yes)));
}

}  // namespace kda::ptx
