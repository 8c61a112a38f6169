// The order in which groups take the tiles of a dense run whose segments are walked beside them.
#pragma once

#include "abi/chunk.h"
#include "base/types.cuh"
#include "sm90/factors/tile.cuh"

namespace kda {

// As AbreastWalk: all heads of a chunk, then the next segment's chunk of the same number, of all
// segments of a sequence, then the next sequence's.  A last segment may have fewer chunks.
class SegmentWalk {
 public:
  // From tile `first` on.
  KDA_DEVICE SegmentWalk(const abi::chunk::PrepareArgs& args, int first)
      : args_(args),
        chunks_(static_cast<int>((args.in.length + chunk - 1) / chunk)),
        count_(ceil_div(chunks_, args.segment)),
        head_(first % args.in.value_heads) {
    const int rest = first / args.in.value_heads;
    index_ = rest % count_;
    n_ = rest / count_ % args.in.sequences;
    c_ = rest / count_ / args.in.sequences;
    settle();
  }

  KDA_DEVICE bool is_over() const { return c_ >= args_.segment; }

  // Where it stands, if it is not over.
  KDA_DEVICE Tile here() const { return tile(n_, index_, head_, c_); }

  // To the group's next tile.
  KDA_DEVICE void next() {
    step();
    settle();
  }

  // visit(tile) for each tile from where it stands on, a lane a tile; a whole warp comes here.
  template <class Visit>
  KDA_DEVICE void each(const Visit& visit) const {
    const abi::chunk::Walk& by = args_.walk;
    const int heads = args_.in.value_heads;
    const int all = args_.in.sequences * count_ * heads;  // tiles of a chunk
    const int step = by.chunks * all + (by.sequences * count_ + args_.segments) * heads + by.heads;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first = (n_ * count_ + index_) * heads + head_ + lane * step;
    for (int at = first; c_ + at / all < args_.segment; at += 32 * step) {
      const int part = at % all / heads;
      const Tile own = tile(part / count_, part % count_, at % heads, c_ + at / all);
      if (own.rows > 0) visit(own);
    }
  }

 private:
  KDA_DEVICE Tile tile(int n, int index, int head, int c) const {
    return tile_of(n, head, n * args_.in.length, args_.in.length, index * args_.segment + c);
  }

  // value += by, modulo `all`; returns what is carried.
  static KDA_DEVICE int add(int& value, int by, int all) {
    value += by;
    if (value < all) return 0;
    value -= all;
    return 1;
  }

  KDA_DEVICE void step() {
    int carry = add(head_, args_.walk.heads, args_.in.value_heads);
    carry = add(index_, args_.segments + carry, count_);
    carry = add(n_, args_.walk.sequences + carry, args_.in.sequences);
    c_ += args_.walk.chunks + carry;
  }

  // Past places that no chunk has.
  KDA_DEVICE void settle() {
    while (!is_over() && index_ * args_.segment + c_ >= chunks_) step();
  }

  const abi::chunk::PrepareArgs& args_;
  int chunks_;  // a sequence
  int count_;   // segments a sequence
  int head_, index_, n_, c_;
};

}  // namespace kda
