// What a block of the correct stage works on: some of a sequence's segments or a share of one's
// chunks, and what the walk has found out about them.
#pragma once

#include "abi/segments.h"
#include "base/segment.cuh"
#include "base/types.cuh"
#include "base/varlen.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/segments/correction.cuh"

namespace kda {

// What a block works on: of the segments after a sequence's first some, or of one a share.
struct Part {
  Segment sequence;   // its first segment
  int head, tile;     // of V columns
  int first, end;     // segments; where `first` is the count, none
  int share, shares;  // of a segment's chunks
  bool finals;        // leaves the state after the last

  KDA_DEVICE int value0() const { return tile * 64; }
  KDA_DEVICE i64 head_slot(const abi::segments::Args& args, int segment) const {
    return (sequence.slot + segment) * args.chain.in.value_heads + head;
  }
  // Of all parts the number-th.
  KDA_DEVICE void take(int number, int parts) {
    const int count = sequence.count - 1;  // segments to correct, at least one
    if (count >= parts) {
      first = 1 + static_cast<int>(static_cast<i64>(number) * count / parts);
      end = 1 + static_cast<int>(static_cast<i64>(number + 1) * count / parts);
      share = 0;
      shares = 1;
      finals = shape.final_state && number + 1 == parts;
      return;
    }
    // The last segment, whose state is known last, has what is left over of the parts; but one of
    // several goes to the end at once.
    shares = parts / count;
    const int over = parts - count * shares;
    const int correct = shape.final_state && over > 1 ? parts - 1 : parts;
    const int before = number < correct ? smaller(number / shares, count - 1) : count;
    share = number - before * shares;
    if (before == count - 1) shares = correct - before * shares;
    first = 1 + before;
    end = smaller(first + 1, sequence.count);
    finals = shape.final_state && number + 1 == parts;
  }
  // Whether it goes a step over the second segment before all else, where nothing is settled.
  KDA_DEVICE bool steps_first() const { return first > 1; }
  KDA_DEVICE bool is_idle() const { return first >= sequence.count && !finals; }
  // Whether it looks at what is lost of T that was given up; others of the segment need not.
  KDA_DEVICE bool looks() const { return share == 0; }
};

// What the walk has left of a segment's T; a whole warp asks.  What it gave up is nothing.
struct Known {
  int chunks[2] = {};     // of its first chunks so many have a q~, of each 64 channels
  bool alive_of[2] = {};  // each for itself, where T may be given up
  bool alive = false;     // T is not nothing

  KDA_DEVICE Known(const abi::segments::Args& args, const Part& part, int index) {
    const abi::segments::Transition* of = args.segments.known + part.head_slot(args, index) * 2;
    int is_alive = 0;
#pragma unroll
    for (int i = 0; i < panels; ++i) {
      chunks[i] = __shfl_sync(0xffffffffU, of[i].chunks, 0);
      is_alive |= of[i].alive;
      if constexpr (gives_up) alive_of[i] = __shfl_sync(0xffffffffU, of[i].alive, 0) != 0;
    }
    alive = __shfl_sync(0xffffffffU, is_alive, 0) != 0;
  }
  // Of those channels alone, the others having been given up, of which the image is as they were.
  KDA_DEVICE bool is_only(int panel) const {
    return gives_up && panels > 1 && alive_of[panel] && !alive_of[1 - panel];
  }
};

// At which looks the walk gave up 64 columns each of T; a whole warp asks.
struct Looks {
  int at[panels];  // -1: at none

  KDA_DEVICE Looks(const abi::segments::Args& args, const Part& part, int index) {
    const int* of = args.given_up.looks + part.head_slot(args, index) * 2;
    const int looks = args.segments.chunks / abi::segments::chunks_a_look;
#pragma unroll
    for (int i = 0; i < panels; ++i) {
      const int look = __shfl_sync(0xffffffffU, of[i], 0);
      at[i] = look < looks ? look : -1;  // of offsets that make no sense, never written
    }
  }
  KDA_DEVICE bool exist() const {
    bool exist = false;
#pragma unroll
    for (const int look : at) exist |= look >= 0;
    return exist;
  }
};

// The last segment before `first` after which the state is S_local, as nothing is left of what was
// before it; 0 where there is none or something was not finite, as 0 times that is not 0.  A whole
// warp asks.
KDA_DEVICE int settled_before(const abi::segments::Args& args, const Part& part, int first) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int settled = 0;
#pragma unroll 1
  for (int last = first - 1; last > 0 && settled == 0; last -= 32) {
    const int index = last - lane;
    bool nothing = index > 0;
    for (int i = 0; nothing && i < panels; ++i) {
      nothing = args.segments.known[part.head_slot(args, index) * 2 + i].alive == 0;
    }
    const u32 found = __ballot_sync(0xffffffffU, nothing);
    if (found != 0) settled = last - __ffs(static_cast<int>(found)) + 1;
  }
#pragma unroll 1
  for (int from = 0; from < settled; from += 32) {
    const int index = from + lane;
    const bool finite =
        index >= settled ||
        reinterpret_cast<const u32*>(
            args.segments.finite)[part.head_slot(args, index) * Tiles::count + part.tile] ==
            0x01010101U;
    if (!__all_sync(0xffffffffU, finite)) return 0;
  }
  return settled;
}

// A part's chunks of a segment: those that have a q~, and those that have not.
struct Share {
  int first = 0;  // within the sequence
  int own = 0, left = 0;
  int known[2] = {};  // of `own` so many have a q~ of each 64 channels

  KDA_DEVICE Share(const abi::segments::Args& args, const Part& part, const Known& of, int index) {
    const int chunks = static_cast<int>((part.sequence.sequence.length() + chunk - 1) / chunk);
    const int before = index * args.segments.chunks;
    const int here = smaller(chunks - before, args.segments.chunks);
    const int each = ceil_div(here, part.shares);
    const int from = smaller(part.share * each, here);
    const int to = smaller(from + each, here);
    first = before + from;
    own = larger(smaller(larger(of.chunks[0], of.chunks[1]), to) - from, 0);
    left = to - from - own;
    known[0] = larger(of.chunks[0] - from, 0);
    known[1] = larger(of.chunks[1] - from, 0);
  }

  KDA_DEVICE chunk_wgmma::Task task(const Part& part) const {
    chunk_wgmma::Task task;
    task.sequence = part.sequence.sequence;
    task.n = part.sequence.n;
    task.head = part.head;
    task.value0 = part.value0();
    task.first = static_cast<i64>(first) * chunk;
    task.slot = first_slot(task.sequence.begin, task.n, chunk) + first;
    task.chunks = own;
    return task;
  }
};

}  // namespace kda
