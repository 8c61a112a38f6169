// Looks at which T may be given up early (abi::segments::GivenUp).
#pragma once

#include "abi/segments.h"
#include "base/types.cuh"
#include "tile/operand.cuh"

namespace kda {

// Whether there is a look with so many of a segment's chunks left, and its number.
KDA_DEVICE constexpr bool is_look(int left) {
  return left % abi::segments::chunks_a_look == abi::segments::chunks_a_look - 1;
}
KDA_DEVICE constexpr int look_at(int left) { return left / abi::segments::chunks_a_look; }

// The squared lengths of a tile's 64 V columns at a look, of this lane's two the first.  tile: of
// all segments', heads' and V's, in that order.
KDA_DEVICE float* lengths_at(const abi::segments::Args& args, i64 tile, int look) {
  const i64 at = tile * (args.segments.chunks / abi::segments::chunks_a_look) + look;
  const int column = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + tile::Lane().g;
  return args.given_up.lengths + at * 64 + column;
}

// The same of those that end what is carried.
KDA_DEVICE float* carry_lengths_at(const abi::segments::Args& args, i64 tile, int look) {
  const i64 at = tile * abi::segments::carry_looks(args.segments.chunks) + look;
  const int column = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + tile::Lane().g;
  return args.carried.lengths + at * 64 + column;
}

// Sums over keys, of this lane's two rows of S^T, of what of(element) says of each.
struct RowSums {
  float of[2];

  template <int count, class Of>
  KDA_DEVICE RowSums(const float (&s)[count][4], Of element, int first = 0, int end = count)
      : of{} {
#pragma unroll
    for (int k = 0; k < count; ++k) {
      if (k < first || k >= end) continue;
#pragma unroll
      for (int e = 0; e < 4; ++e) of[e / 2] += element(s[k][e]);
    }
#pragma unroll
    for (float& x : of) {
      x += __shfl_xor_sync(0xffffffffU, x, 1);
      x += __shfl_xor_sync(0xffffffffU, x, 2);
    }
  }
};

KDA_DEVICE float square(float x) { return x * x; }

}  // namespace kda
