// How blocks of the carry stage tell each other what is left of a state at a segment's end.
#pragma once

#include "abi/segments.h"
#include "base/types.cuh"
#include "ptx/flag.cuh"
#include "sm90/segments/walk_part.cuh"

namespace kda {

// What is left at a segment's end, or at that of its factors.
enum class Left { nothing, something, much };

// Whether any thread says so; known to be the same for a whole warp, or what depends on it would
// not be, and products wait for their descriptors.
KDA_DEVICE bool any_of_block(bool says) {
  return __shfl_sync(0xffffffffU, __syncthreads_or(says ? 1 : 0), 0) != 0;
}

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

  // What the first turn has left, and what all have; the whole block comes here.
  KDA_DEVICE void tell_first(Left left) {
    if (last_) return;
    much_ = left == Left::much ? abi::segments::much_left : 0;
    say((left == Left::nothing ? abi::segments::first_left_nothing
                               : abi::segments::first_left_something) |
        much_);
  }
  KDA_DEVICE void tell(Left left) const {
    if (last_) return;
    if (left != Left::nothing) {
      __threadfence();
      __syncthreads();
    }
    say((left == Left::nothing ? abi::segments::nothing_left : abi::segments::something_left) |
        much_);
  }

  // What the first turns before have left, one of them or more.  A turn of its own block that has
  // left nothing is enough where this is so of all before, too: nobody waits for one after another.
  struct Before {
    bool something, much;
  };
  KDA_DEVICE Before first_before() const {
    u32 any = 0;
    if (threadIdx.x < 32) {
      const int lane = static_cast<int>(threadIdx.x);
      for (int back = 1 + lane; back < index_; back += 32) {
        const u32 what = wait(back, abi::segments::first_left_nothing);
        const u32 left = what & ~abi::segments::much_left;
        const bool nothing =
            left == abi::segments::first_left_nothing || left == abi::segments::nothing_left;
        any |= (nothing ? 0 : 1) | (what & abi::segments::much_left);
      }
    }
    return {any_of_block((any & 1) != 0), any_of_block((any & abi::segments::much_left) != 0)};
  }
  // Whether T makes what is left at the end known sooner: of the third segment it is after one turn
  // behind the second one's first, as into that nothing but S_local comes, and nobody waits for
  // that of the last one.
  KDA_DEVICE bool is_sooner_by_transition() const { return index_ > 2 && !last_; }
  // Whether all turns of the segment before, when they are over, have left something.
  KDA_DEVICE bool is_left_before() const {
    bool left = false;
    if (threadIdx.x == 0) {
      const u32 what = wait(1, abi::segments::nothing_left);
      left = (what & ~abi::segments::much_left) == abi::segments::something_left;
    }
    return any_of_block(left);
  }

 private:
  // What is told of the segment so many before, once it is `least` or more.
  KDA_DEVICE u32 wait(int back, u32 least) const {
    u32 what = 0;
    do {
      what = ptx::acquire(own_ - back * step_);
    } while ((what & ~abi::segments::much_left) < least);
    return what;
  }

  KDA_DEVICE void say(u32 what) const {
    if (threadIdx.x == 0) ptx::release(own_, what);
  }

  u32* own_;
  u32 much_ = 0;  // as told first
  int index_;
  bool last_;
  i64 step_;  // words a segment
};

}  // namespace kda
