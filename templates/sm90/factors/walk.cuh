// The order in which groups take tiles.
#pragma once

#include "sm90/factors/load.cuh"

namespace kda {

// All heads of a chunk, then the next sequence's chunk of the same number, so that no chain waits
// for another's end.
class Walk {
 public:
  // From tile `first` on.  A whole warp asks.
  KDA_DEVICE Walk(const abi::Inputs& in, const abi::chunk::Walk& step, int first)
      : in_(in),
        step_(step),
        chunks_(longest()),
        c_(first / in.value_heads / in.sequences),
        n_(first / in.value_heads % in.sequences),
        head_(first % in.value_heads) {
    settle();
  }

  KDA_DEVICE bool is_over() const { return c_ >= chunks_; }

  // Where it stands, if it is not over.
  KDA_DEVICE Tile here() const {
    Tile tile;
    const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in_, n_);
    tile.n = n_;
    tile.head = head_;
    tile.begin = sequence.begin;
    tile.first = static_cast<i64>(c_) * chunk;
    tile.slot = first_slot(sequence.begin, n_, chunk) + c_;
    const i64 left = sequence.chunked(tune.short_tokens) - tile.first;
    tile.rows = left <= 0 ? 0 : static_cast<int>(left < chunk ? left : chunk);
    return tile;
  }

  // To the next tile that exists.
  KDA_DEVICE void next() {
    advance();
    settle();
  }

 private:
  KDA_DEVICE void advance() {
    head_ += step_.heads;
    int carry = 0;
    if (head_ >= in_.value_heads) {
      head_ -= in_.value_heads;
      carry = 1;
    }
    n_ += step_.sequences + carry;
    carry = 0;
    if (n_ >= in_.sequences) {
      n_ -= in_.sequences;
      carry = 1;
    }
    c_ += step_.chunks + carry;
  }

  KDA_DEVICE void settle() {
    if constexpr (shape.varlen) {
      while (!is_over() && here().rows == 0) advance();
    }
  }

  // Chunks of the longest sequence.
  KDA_DEVICE int longest() const {
    i64 most = 0;
    for (int n = shape.varlen ? static_cast<int>(threadIdx.x) % 32 : 0; n < in_.sequences;
         n += shape.varlen ? 32 : in_.sequences) {
      const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in_, n);
      const i64 tokens = sequence.chunked(tune.short_tokens);
      most = most > tokens ? most : tokens;
    }
    const int chunks = static_cast<int>((most + chunk - 1) / chunk);
    return shape.varlen ? __reduce_max_sync(0xffffffffU, chunks) : chunks;
  }

  const abi::Inputs& in_;
  const abi::chunk::Walk& step_;
  int chunks_, c_, n_, head_;
};

}  // namespace kda
