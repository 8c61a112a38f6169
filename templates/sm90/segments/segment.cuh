// Which segment a block works on, and the states that segments leave for each other.
#pragma once

#include "abi/segments.h"
#include "base/varlen.cuh"

namespace kda::segments {

struct Segment {
  Sequence sequence;
  int n;
  int index, count;  // within the sequence, which has at least one, if empty
  i64 slot;          // of the sequence's first segment

  KDA_DEVICE Segment(const Sequence& of, int number, i64 at, i64 tokens)
      : sequence(of),
        n(number),
        count(static_cast<int>((of.length() + tokens - 1) / tokens)),
        slot(of.begin / tokens + number) {
    index = static_cast<int>(at - slot);
    count = larger(count, 1);
  }

  KDA_DEVICE bool exists() const { return index >= 0 && index < count; }
  KDA_DEVICE bool last() const { return index + 1 >= count; }
};

// The one of a segment slot; slots that no segment has give one that does not exist.
template <abi::Shape shape>
KDA_DEVICE Segment segment_at(const abi::Inputs& in, i64 at, int tokens) {
  const int n = sequence_at<shape.varlen, shape.cu_seqlens_type>(in, at, tokens);
  return Segment(sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n), n, at, tokens);
}

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

  static KDA_DEVICE float* at(const abi::segments::Segments& segments, i64 slot, int value_heads,
                              int head, int tile) {
    return segments.states + ((slot * value_heads + head) * count + tile) * (bytes / 4);
  }
};

}  // namespace kda::segments
