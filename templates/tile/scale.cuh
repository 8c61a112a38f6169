// Keeps f16 operands in range: an exact power of two that brings a warp's largest near 2^8 when it
// would overflow or lose bits in f16.  Other types need none: `needed` is false and all folds away.
#pragma once

#include "abi/dtype.h"
#include "base/types.cuh"

namespace kda::tile {

template <abi::DType type>
struct Scale {
  static constexpr bool needed = type == abi::DType::f16;

  float up = 1.0F;    // values * up go into operands
  float down = 1.0F;  // products * down come back

  // From the warp's largest magnitude.  Nothing to do within [2^-3, 2^13].  What is smaller by far
  // is left to vanish: `up`, times a factor's own scale and a state of any size, must stay finite.
  KDA_DEVICE void choose(float largest) {
    if constexpr (needed) {
#pragma unroll
      for (int step = 16; step > 0; step /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, step));
      }
      up = down = 1.0F;
      const int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
      if ((exponent < -3 || exponent > 12) && exponent > -127 && exponent < 128) {
        const int shift = 8 - exponent < 64 ? 8 - exponent : 64;
        up = __uint_as_float(static_cast<u32>(shift + 127) << 23);
        down = __uint_as_float(static_cast<u32>(127 - shift) << 23);
      }
    }
  }
};

}  // namespace kda::tile
