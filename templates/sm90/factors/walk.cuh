// The order in which groups take tiles.
#pragma once

#include "abi/chunk.h"
#include "base/types.cuh"
#include "sm90/factors/pack_walk.cuh"
#include "sm90/factors/segment_walk.cuh"
#include "sm90/factors/tile.cuh"

namespace kda {

// Of equal sequences: all heads of a chunk, then the next one's chunk of the same number, so that
// no chain waits for another's end.
class AbreastWalk {
 public:
  // From tile `first` on.
  KDA_DEVICE AbreastWalk(const abi::chunk::PrepareArgs& args, int first)
      : in_(args.in),
        step_(args.walk),
        chunks_(chunks_of(in_)),
        c_(first / in_.value_heads / in_.sequences),
        n_(first / in_.value_heads % in_.sequences),
        head_(first % in_.value_heads) {}

  KDA_DEVICE bool is_over() const { return c_ >= chunks_; }

  // Where it stands, if it is not over.
  KDA_DEVICE Tile here() const {
    const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in_, n_);
    return tile_of(n_, head_, sequence.begin, sequence.length(), c_);
  }

  // To the group's next tile.
  KDA_DEVICE void next() {
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

  // visit(tile) for each tile from where it stands on, a lane a tile; a whole warp comes here.
  template <class Visit>
  KDA_DEVICE void each(const Visit& visit) const {
    const int all = in_.sequences * in_.value_heads;  // tiles of a chunk
    const int step = step_.chunks * all + step_.sequences * in_.value_heads + step_.heads;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first = n_ * in_.value_heads + head_ + lane * step;
    for (int at = first; c_ + at / all < chunks_; at += 32 * step) {
      const int n = at % all / in_.value_heads;
      const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in_, n);
      const Tile tile =
          tile_of(n, at % in_.value_heads, sequence.begin, sequence.length(), c_ + at / all);
      if (tile.rows > 0) visit(tile);
    }
  }

 private:
  // Of each sequence; none where there is no sequence.  One turn at most: by a condition in place
  // of the loop ptxas allocates all registers otherwise.
  static KDA_DEVICE int chunks_of(const abi::Inputs& in) {
    i64 tokens = 0;
    for (int n = 0; n < in.sequences; n += in.sequences) {
      tokens = tokens > in.length ? tokens : in.length;
    }
    return static_cast<int>((tokens + chunk - 1) / chunk);
  }

  const abi::Inputs& in_;
  const abi::chunk::Walk& step_;
  int chunks_, c_, n_, head_;
};

// Where short sequences have a stage of their own: the long ones in the order in which the chains
// take them (sm90/long_sequence.cuh), all heads of a chunk, then the sequence's next.
class LongWalk {
 public:
  KDA_DEVICE LongWalk(const abi::chunk::PrepareArgs& args, int first)
      : in_(args.in),
        step_(args.walk),
        n_(in_.sequences),
        chunks_(0),
        c_(first / in_.value_heads),
        head_(first % in_.value_heads) {
    settle();
  }

  KDA_DEVICE bool is_over() const { return n_ < 0; }

  KDA_DEVICE Tile here() const {
    const Sequence sequence = at(n_);
    return tile_of(n_, head_, sequence.begin, sequence.length(), c_);
  }

  KDA_DEVICE void next() {
    head_ += step_.heads;
    c_ += step_.chunks;
    if (head_ >= in_.value_heads) {
      head_ -= in_.value_heads;
      ++c_;
    }
    settle();
  }

  // visit(tile) for each tile from where it stands on, a lane a tile of a sequence; a whole warp
  // comes here.
  template <class Visit>
  KDA_DEVICE void each(const Visit& visit) const {
    const int step = step_.chunks * in_.value_heads + step_.heads;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (LongWalk walk = *this; !walk.is_over();) {
      const int first = walk.c_ * in_.value_heads + walk.head_;
      const int own = first + lane * step;
      const bool exists = own / in_.value_heads < walk.chunks_;
      if (exists) {
        const Sequence sequence = at(walk.n_);
        visit(tile_of(walk.n_, own % in_.value_heads, sequence.begin, sequence.length(),
                      own / in_.value_heads));
      }
      const int next = first + __popc(__ballot_sync(0xffffffffU, exists)) * step;
      walk.c_ = next / in_.value_heads;
      walk.head_ = next % in_.value_heads;
      walk.settle();
    }
  }

 private:
  KDA_DEVICE Sequence at(int n) const {
    return sequence_of<shape.varlen, shape.cu_seqlens_type>(in_, n);
  }

  KDA_DEVICE void settle() {
    while (n_ >= 0 && c_ >= chunks_) {
      c_ -= chunks_;
      n_ = long_before(n_);
      chunks_ = n_ < 0 ? 0 : static_cast<int>((at(n_).length() + chunk - 1) / chunk);
    }
  }

  // The last long sequence before `end`; -1: there is none.
  KDA_DEVICE int long_before(int end) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int last = end - 1; last >= 0; last -= 32) {
      const int n = last - lane;
      const bool is_long = n >= 0 && at(n).chunked(tune.short_tokens) > 0;
      const u32 found = __ballot_sync(0xffffffffU, is_long);
      if (found != 0) return last - __ffs(static_cast<int>(found)) + 1;
    }
    return -1;
  }

  const abi::Inputs& in_;
  const abi::chunk::Walk& step_;
  int n_, chunks_, c_, head_;
};

using Walk =
    either<tune.abreast != 0, SegmentWalk,
           either<(tune.short_tokens > 1), LongWalk, either<shape.varlen, PackWalk, AbreastWalk>>>;

}  // namespace kda
