// One lane of a warp.
#pragma once

#include "base/types.cuh"

namespace kda::ptx {

// Whether this lane is it, the same one every time, so that it may wait for its own bulk copies;
// all lanes of the warp ask at once.
KDA_DEVICE bool elect() {
  u32 r;
  asm volatile(
      "{.reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;}"
      : "=r"(r));
  return r != 0;
}

}  // namespace kda::ptx
