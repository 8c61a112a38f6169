// How blocks of the carry stage tell each other what is left of a state at a segment's end.
#pragma once

#include "abi/segments.h"
#include "base/types.cuh"
#include "ptx/flag.cuh"
#include "sm90/segments/walk_part.cuh"

namespace kda {

class Ends {
 public:
  KDA_DEVICE Ends(const abi::segments::Args& args, const Part& part)
      : own_(args.carried.ends + part.tile(args.chain.in)),
        index_(part.segment.index),
        last_(part.segment.last()),
        step_(static_cast<i64>(args.chain.in.value_heads) * Tiles::count) {}

  // Whether factors of the segment's first chunks alone are there, as they have made T nothing;
  // before anything is told.
  KDA_DEVICE bool little_kept() const { return __ldcg(own_) == abi::segments::unknown_little_kept; }

  // What the first turn, or all, have left; the whole block comes here.
  KDA_DEVICE void tell(u32 what) const {
    if (last_) return;
    if (what == abi::segments::something_left) {
      __threadfence();
      __syncthreads();
    }
    if (threadIdx.x == 0) ptx::release(own_, what);
  }

  // Whether something is left at the end of the segment before; the whole block asks.  A turn of
  // its own block that has left nothing is enough where this is so of all before, too: nobody waits
  // for one after another.
  KDA_DEVICE bool leave_something_before() const {
    bool left = false;
    if (threadIdx.x < 32) {
      bool any = false;
      const int lane = static_cast<int>(threadIdx.x);
      for (int back = 1 + lane; back < index_; back += 32) {
        any |= wait(back, abi::segments::first_left_nothing) == abi::segments::something_left;
      }
      if (__any_sync(0xffffffffU, any)) {
        left = wait(1, abi::segments::nothing_left) == abi::segments::something_left;
      }
    }
    return __syncthreads_or(left ? 1 : 0) != 0;
  }

 private:
  // What is told of the segment so many before, once it is `least` or more.
  KDA_DEVICE u32 wait(int back, u32 least) const {
    u32 what = 0;
    do {
      what = ptx::acquire(own_ - back * step_);
    } while (what < least);
    return what;
  }

  u32* own_;
  int index_;
  bool last_;
  i64 step_;  // words a segment
};

}  // namespace kda
