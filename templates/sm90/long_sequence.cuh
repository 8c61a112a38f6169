// Which sequences go by chunks where a stage of their own serves the short ones.
#pragma once

#include "abi/shape.h"
#include "abi/tensors.h"
#include "base/types.cuh"
#include "base/varlen.cuh"

namespace kda {

// The one of this rank among those before sequence `end`, counted from the last; -1: there are not
// so many.  A whole warp asks, and learns that it is one number.
template <abi::Shape shape, int short_tokens, int rounds = 4>  // of 32, their loads in flight
KDA_DEVICE int long_sequence(const abi::Inputs& in, int end, int rank) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int n = -1;
#pragma unroll 1
  for (; end > 0 && n < 0; end -= rounds * 32) {
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
      const bool is_it = is_long[i] && __popc(found & ((1U << lane) - 1)) == rank;
      const u32 at = __ballot_sync(0xffffffffU, n < 0 && is_it);
      if (at != 0) n = end - i * 32 - __ffs(static_cast<int>(at));
      rank -= __popc(found);
    }
  }
  return __shfl_sync(0xffffffffU, n, 0);
}

// How many there are; a whole warp asks.
template <abi::Shape shape, int short_tokens>
KDA_DEVICE int long_sequences(const abi::Inputs& in) {
  int own = 0;
#pragma unroll 4
  for (int n = static_cast<int>(threadIdx.x) % 32; n < in.sequences; n += 32) {
    own += sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n).chunked(short_tokens) > 0;
  }
  return __reduce_add_sync(0xffffffffU, own);
}

}  // namespace kda
