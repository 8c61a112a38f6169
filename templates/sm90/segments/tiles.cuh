// What the walk of a segment leaves for the next stage.
#pragma once

#include "abi/segments.h"
#include "abi/shape.h"
#include "base/types.cuh"

namespace kda::segments {

// A warpgroup's 64 V columns of S^T, as many bytes a thread and all of them side by side.
template <int count>
KDA_DEVICE void load_tile(float (&s)[count][4], const float* tile) {
  const auto* from = reinterpret_cast<const float4*>(tile) + threadIdx.x % 128;
#pragma unroll
  for (int k = 0; k < count; ++k) {
    const float4 x = from[k * 128];
    s[k][0] = x.x;
    s[k][1] = x.y;
    s[k][2] = x.z;
    s[k][3] = x.w;
  }
}

template <int count>
KDA_DEVICE void store_tile(const float (&s)[count][4], float* tile) {
  auto* to = reinterpret_cast<float4*>(tile) + threadIdx.x % 128;
#pragma unroll
  for (int k = 0; k < count; ++k) {
    to[k * 128] = make_float4(s[k][0], s[k][1], s[k][2], s[k][3]);
  }
}

// A head's state after a segment, in tiles of 64 V columns.
template <abi::Shape shape>
struct Tiles {
  static constexpr int count = abi::segments::value_tiles(shape);
  static constexpr int bytes = abi::segments::tile_bytes(shape);

  static KDA_DEVICE float* at(const abi::segments::Segments& segments, i64 head_slot, int tile) {
    return segments.states + (head_slot * count + tile) * (bytes / 4);
  }
};

}  // namespace kda::segments
