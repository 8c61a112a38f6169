// Sequences cut into segments of so many tokens, numbered as chunks are (base/varlen.cuh).
#pragma once

#include "abi/shape.h"
#include "abi/tensors.h"
#include "base/types.cuh"
#include "base/varlen.cuh"

namespace kda {

// Tokens a segment, a power of two: division by a shift.
struct PowerOfTwoTokens {
  int shift;

  KDA_DEVICE explicit PowerOfTwoTokens(int tokens) : shift(31 - __clz(tokens)) {}
  KDA_DEVICE i64 count() const { return i64(1) << shift; }
};
KDA_DEVICE i64 operator/(i64 tokens, PowerOfTwoTokens each) { return tokens >> each.shift; }

// Of any number.
struct AnyTokens {
  int tokens;

  KDA_DEVICE explicit AnyTokens(int of) : tokens(of) {}
  KDA_DEVICE i64 count() const { return tokens; }
};
KDA_DEVICE i64 operator/(i64 tokens, AnyTokens each) { return tokens / each.tokens; }

template <bool power_of_two>
using SegmentTokens = either<power_of_two, PowerOfTwoTokens, AnyTokens>;

struct Segment {
  Sequence sequence;
  int n;
  int index, count;  // within the sequence, which has at least one, if empty
  i64 slot;          // of the sequence's first segment

  template <class Tokens>
  KDA_DEVICE Segment(const Sequence& of, int number, i64 at, Tokens tokens)
      : sequence(of),
        n(number),
        count(static_cast<int>((of.length() + tokens.count() - 1) / tokens)),
        slot(first_slot(of.begin, number, tokens)) {
    index = static_cast<int>(at - slot);
    count = larger(count, 1);
  }

  // A sequence's first.
  template <abi::Shape shape, class Tokens>
  static KDA_DEVICE Segment first_of(const abi::Inputs& in, int n, Tokens tokens) {
    const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n);
    return Segment(sequence, n, first_slot(sequence.begin, n, tokens), tokens);
  }

  KDA_DEVICE bool exists() const { return index >= 0 && index < count; }
  KDA_DEVICE bool last() const { return index + 1 >= count; }
  // Whether the sequence's last segment has all of its tokens.
  KDA_DEVICE bool ends_whole(int tokens) const {
    return sequence.length() == static_cast<i64>(count) * tokens;
  }
};

// The one of a segment slot; slots that no segment has give one that does not exist.
template <abi::Shape shape, class Tokens>
KDA_DEVICE Segment segment_at(const abi::Inputs& in, i64 at, Tokens tokens) {
  const int n = sequence_at<shape.varlen, shape.cu_seqlens_type>(in, at, tokens);
  return Segment(sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n), n, at, tokens);
}

}  // namespace kda
