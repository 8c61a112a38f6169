// The order in which groups take the tiles of a pack.
#pragma once

#include "abi/chunk.h"
#include "abi/factors.h"
#include "base/types.cuh"
#include "base/varlen.cuh"
#include "sm90/factors/tile.cuh"

namespace kda {

// As AbreastWalk, all heads of a chunk, then the next sequence's chunk of the same number, but of
// tiles that exist alone: where sequences differ, groups that step over the others' places would
// meet the longest one's chunks seldom or never, as a step may be a multiple of all heads.
class PackWalk {
 public:
  // From tile `first` on, of at most abi::factors::most_walked sequences.  The whole block comes
  // here.
  KDA_DEVICE PackWalk(const abi::chunk::PrepareArgs& args, int first)
      : in_(args.in), step_(args.walk), c_(0), n_(0), head_(first % in_.value_heads) {
    if (static_cast<int>(threadIdx.x) < in_.sequences) {
      noted()[threadIdx.x] =
          sequence_of<shape.varlen, shape.cu_seqlens_type>(in_, static_cast<int>(threadIdx.x));
    }
    __syncthreads();
    look();
    advance(first / in_.value_heads);
  }

  KDA_DEVICE bool is_over() const { return n_ < 0; }

  // Where it stands, if it is not over.
  KDA_DEVICE Tile here() const { return tile(n_, head_, c_); }

  // To the group's next tile.  A whole warp comes here.
  KDA_DEVICE void next() {
    head_ += step_.heads;
    int chunks = step_.chunks * in_.sequences + step_.sequences;
    if (head_ >= in_.value_heads) {
      head_ -= in_.value_heads;
      ++chunks;
    }
    advance(chunks);
  }

  // visit(tile) for each tile from where it stands on, a lane a tile; a whole warp comes here.
  template <class Visit>
  KDA_DEVICE void each(const Visit& visit) const {
    const int heads = in_.value_heads;
    const int step = (step_.chunks * in_.sequences + step_.sequences) * heads + step_.heads;
    for (PackWalk walk = *this; !walk.is_over();) {
      const int own = walk.head_ + lane() * step;
      const int place = walk.place() + own / heads;
      const int c = walk.c_ + place / walk.sequences();
      const bool exists = c < walk.end_;
      if (exists) visit(tile(walk.sequence(place % walk.sequences()), own % heads, c));
      const int next = walk.head_ + __popc(__ballot_sync(0xffffffffU, exists)) * step;
      walk.head_ = next % heads;
      walk.advance(next / heads);
    }
  }

 private:
  static KDA_DEVICE int lane() { return static_cast<int>(threadIdx.x) % 32; }

  // All sequences, where each question finds one sooner than in memory.
  static KDA_DEVICE Sequence* noted() {
    __shared__ Sequence of[abi::factors::most_walked];
    return of;
  }

  KDA_DEVICE Tile tile(int n, int head, int c) const {
    const Sequence sequence = noted()[n];
    return tile_of(n, head, sequence.begin, sequence.length(), c);
  }

  // Sequences that have chunk c_.
  KDA_DEVICE int sequences() const { return __popc(have_); }
  // How many of them come before sequence n_, and the one after so many.
  KDA_DEVICE int place() const { return __popc(have_ & ((1U << n_) - 1)); }
  KDA_DEVICE int sequence(int place) const {
    u32 left = have_;
    for (; place > 0; --place) left &= left - 1;
    return __ffs(static_cast<int>(left)) - 1;
  }

  // What chunk c_ begins.
  KDA_DEVICE void look() {
    static_assert(abi::factors::most_walked == 32, "a lane and a bit a sequence");
    constexpr int kNever = 0x7fffffff;
    int chunks = 0;
    if (lane() < in_.sequences) {
      chunks = static_cast<int>((noted()[lane()].length() + chunk - 1) / chunk);
    }
    have_ = __ballot_sync(0xffffffffU, chunks > c_);
    end_ = __reduce_min_sync(0xffffffffU, chunks > c_ ? chunks : kNever);
  }

  // So many chunks of one head on.
  KDA_DEVICE void advance(int chunks) {
    int after = place() + chunks;
    while (have_ != 0) {
      const int ahead = sequences() == 1 ? after : after / sequences();  // mostly one's
      if (ahead < end_ - c_) {
        c_ += ahead;
        n_ = sequence(after - ahead * sequences());
        return;
      }
      after -= (end_ - c_) * sequences();
      c_ = end_;
      look();
    }
    n_ = -1;
  }

  const abi::Inputs& in_;
  const abi::chunk::Walk& step_;
  int c_, n_, head_;
  u32 have_;  // the sequences that have chunk c_, a bit each
  int end_;   // the first chunk that fewer have
};

}  // namespace kda
