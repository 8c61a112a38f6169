// Where a sequence begins and ends, and which chunk slot is whose.
//
// Chunks never cross a sequence, and nobody may read cu_seqlens on the host, so slots are numbered
// without a prefix sum: sequence n starts at slot begin / C + n.  Since floor(a + b) >= floor(a) +
// floor(b), the next sequence starts past the last chunk of this one: slots never collide, and
// T / C + N of them suffice.  A few stay empty.
#pragma once

#include "abi/shape.h"
#include "abi/tensors.h"
#include "base/types.cuh"

namespace kda {

struct Sequence {
  i64 begin;  // first token, counted over the whole pack
  i64 end;

  KDA_DEVICE i64 length() const { return end - begin; }
  // Tokens that go by chunks: none of a sequence that a stage of its own serves, which takes those
  // of up to short_tokens (1: there is no such stage).
  KDA_DEVICE i64 chunked(int short_tokens) const {
    return short_tokens > 1 && length() <= short_tokens ? 0 : length();
  }
};

// Clamped into [0, T]: a cu_seqlens that decreases or runs past T reads and writes nothing outside.
template <bool varlen, abi::Index type>
KDA_DEVICE Sequence sequence_of(const abi::Inputs& in, int n) {
  if constexpr (varlen) {
    i64 begin;
    i64 end;
    if constexpr (type == abi::Index::i32) {
      const auto* at = static_cast<const int*>(in.cu_seqlens) + n;
      begin = at[0];
      end = at[1];
    } else {
      const auto* at = static_cast<const i64*>(in.cu_seqlens) + n;
      begin = at[0];
      end = at[1];
    }
    begin = begin < 0 ? 0 : (begin > in.tokens ? in.tokens : begin);
    end = end < begin ? begin : (end > in.tokens ? in.tokens : end);
    return {begin, end};
  } else {
    return {n * in.length, (n + 1) * in.length};
  }
}

template <class Tokens>
KDA_DEVICE i64 first_slot(i64 begin, int n, Tokens chunk) {
  return begin / chunk + n;
}

// The sequence whose slots hold `slot`: the last n that starts at or before it.
template <bool varlen, abi::Index type, class Tokens>
KDA_DEVICE int sequence_at(const abi::Inputs& in, i64 slot, Tokens chunk) {
  int low = 0;
  int high = in.sequences - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    const i64 begin = sequence_of<varlen, type>(in, middle).begin;
    if (first_slot(begin, middle, chunk) <= slot) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Offset of (sequence n starting at token `begin`, head h) in a tensor, in elements; its token i is
// i * token further.
template <bool varlen>
KDA_DEVICE i64 offset_of(const abi::Tensor& tensor, int n, i64 begin, int h) {
  return (varlen ? begin * tensor.token : n * tensor.sequence) + h * tensor.head;
}

}  // namespace kda
