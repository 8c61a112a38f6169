// The factor that makes a row of q or k unit length: 1 / sqrt(sum of squares + 1e-6), in f32.
#pragma once

#include "abi/shape.h"
#include "base/element.cuh"
#include "base/types.cuh"

namespace kda::step {

KDA_DEVICE float unit_length(float sum_of_squares) { return rsqrtf(sum_of_squares + 1e-6F); }

// Of the K elements at data[index ..], by one warp; every lane gets it.
template <abi::Shape shape>
KDA_DEVICE float row_norm(const void* data, i64 index, bool paired) {
  const int lane = threadIdx.x % 32;
  float sum = 0.0F;
  if (paired) {
#pragma unroll
    for (int c = 2 * lane; c < round_up(shape.key_dim, 64); c += 64) {
      if (c < shape.key_dim) {
        const float2 x = load_pair<shape.qkv_type>(data, index + c);
        sum += x.x * x.x + x.y * x.y;
      }
    }
  } else {
    for (int c = lane; c < shape.key_dim; c += 32) {
      const float x = load<shape.qkv_type>(data, index + c);
      sum += x * x;
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  return unit_length(sum);
}

}  // namespace kda::step
