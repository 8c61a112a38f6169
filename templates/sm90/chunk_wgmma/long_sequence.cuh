// Which sequences go by chunks where a stage of their own serves the short ones.
#pragma once

#include "abi/shape.h"
#include "abi/tensors.h"
#include "base/types.cuh"
#include "base/varlen.cuh"

namespace kda::chunk_wgmma {

// The one of this rank, counted from the last sequence; -1: there are not so many.  A whole warp
// asks, and learns that it is one number.
template <abi::Shape shape, int short_tokens>
KDA_DEVICE int long_sequence(const abi::Inputs& in, int rank) {
  constexpr int rounds = 4;  // of 32 sequences, their loads in flight together
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int n = -1;
#pragma unroll 1
  for (int end = in.sequences; end > 0 && n < 0; end -= rounds * 32) {
    bool is_long[rounds];
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
      const int at = end - 1 - i * 32 - lane;
      is_long[i] = at >= 0 && sequence_of<shape.varlen, shape.cu_seqlens_type>(in, at).chunked(
                                  short_tokens) > 0;
    }
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
      const u32 found = __ballot_sync(0xffffffffU, is_long[i]);
      const int count = __popc(found);
      if (n < 0 && rank < count) {
        n = end - 1 - i * 32 - static_cast<int>(__fns(found, 0, rank + 1));
      }
      rank -= count;
    }
  }
  return __shfl_sync(0xffffffffU, n, 0);
}

}  // namespace kda::chunk_wgmma
