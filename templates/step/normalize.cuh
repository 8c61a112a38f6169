// What makes a row of q or k unit length, 1 / sqrt(sum of squares + 1e-6), in f32; or its length is
// taken as given (Shape::qk_normalized).
#pragma once

#include "base/element.cuh"
#include "base/types.cuh"

namespace kda::step {

KDA_DEVICE float unit_factor(float sum_of_squares) { return rsqrtf(sum_of_squares + 1e-6F); }

// The factor of a row that comes normalised: NaN, not guesswork, where it was said to and does not.
KDA_DEVICE float as_given(bool served) { return served ? 1.0F : __int_as_float(0x7fc00000); }

// The sum of squares of the `channels` elements at data[index ..], by one warp; every lane gets it.
template <abi::DType type, int channels>
KDA_DEVICE float row_squares(const void* data, i64 index) {
  float sum = 0.0F;
#pragma unroll 2
  for (int c = static_cast<int>(threadIdx.x) % 32; c < channels; c += 32) {
    const float x = load<type>(data, index + c);
    sum += x * x;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  return sum;
}

// Sums 16 values over `width` neighbouring lanes (16 or 32) in 16 exchanges: each halving hands
// half of the values to the other half of the lanes.  Lane l of a width returns the total of value
// l / (width / 16).
template <int width>
KDA_DEVICE float sum16(float (&x)[16]) {
  const int lane = threadIdx.x % 32;
  int kept = 16;
#pragma unroll
  for (int step = width / 2; step >= width / 16; step /= 2) {
    kept /= 2;
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < kept) {
        const float give = upper ? x[i] : x[i + kept];
        const float keep = upper ? x[i + kept] : x[i];
        x[i] = keep + __shfl_xor_sync(0xffffffffU, give, step);
      }
    }
  }
  if constexpr (width == 32) x[0] += __shfl_xor_sync(0xffffffffU, x[0], 1);
  return x[0];
}

}  // namespace kda::step
