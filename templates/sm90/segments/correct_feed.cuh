// The warps of the correct stage that bring what its consumers want: one T, S_local and q~, others
// o, which they take away again.
#pragma once

#include "abi/segments.h"
#include "abi/tensors.h"
#include "base/tensor.cuh"
#include "base/types.cuh"
#include "ptx/bulk.cuh"
#include "ptx/mbarrier.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/chunk_wgmma/rows.cuh"
#include "sm90/segments/correct_part.cuh"
#include "sm90/segments/correction.cuh"

namespace kda {

// The warp that brings T and S_local, and q~.
class Feed {
 public:
  KDA_DEVICE Feed(const Ring& ring, const abi::segments::Args& args, const Part& part)
      : ring_(ring), args_(args), part_(part) {}

  // T and S_local of segments from `index` to `end` - 1.
  KDA_DEVICE void steps(int index, int end) {
    if (index >= end) return;
    ring_.drain(to_);
#pragma unroll 1
    for (; index < end; ++index) step(index, Known(args_, part_, index).alive);
  }

  KDA_DEVICE void step(int index, bool alive) {
    ring_.wait_empty(step_);
    if (leads()) {
      const i64 head_slot = part_.head_slot(args_, index);
      const u32 full = ring_.full(step_);
      const u32 at = ring_.at(step_);
      ptx::mbarrier_arrive_expecting(full, Tiles::bytes + (alive ? 2 * Image::bytes : 0));
      ptx::bulk_load(at + 2 * Image::bytes, Tiles::at(args_.segments, head_slot, part_.tile),
                     Tiles::bytes, full);
      if (alive) {
        const i64 image = head_slot * Image::bytes;
        ptx::bulk_load(at, static_cast<const char*>(args_.segments.transition) + image,
                       Image::bytes, full);
        ptx::bulk_load(at + Image::bytes,
                       static_cast<const char*>(args_.segments.transition_rest) + image,
                       Image::bytes, full);
      }
    }
    step_.next();
  }

  // T of a segment as it was given up, if it was.
  KDA_DEVICE void given_up(int index) {
    if (!Looks(args_, part_, index).exist()) return;
    ring_.drain(to_);
    ring_.wait_empty(step_);
    if (leads()) {
      const u32 full = ring_.full(step_);
      ptx::mbarrier_arrive_expecting(full, Image::bytes);
      ptx::bulk_load(ring_.at(step_),
                     static_cast<const char*>(args_.segments.transition) +
                         part_.head_slot(args_, index) * Image::bytes,
                     Image::bytes, full);
    }
    step_.next();
  }

  KDA_DEVICE void queries(int index) {
    const Share share(args_, part_, Known(args_, part_, index), index);
    if (share.own == 0) return;
    ring_.wait_for_queries(step_);
    const int value_heads = args_.chain.in.value_heads;
    const i64 slot = share.task(part_).slot;
    const char* from = static_cast<const char*>(args_.segments.queries) +
                       (slot * value_heads + part_.head) * Correction::Factor::bytes;
#pragma unroll 1
    for (int at = 0; at < share.own; ++at) {
      ring_.wait_empty(to_);
      if (leads()) {
        constexpr int panel = Correction::Factor::panel_bytes;
        const u32 full = ring_.full(to_);
        const bool low = at < share.known[0];
        const bool high = at < share.known[1];
        ptx::mbarrier_arrive_expecting(full, (low ? panel : 0) + (high ? panel : 0));
        if (low) ptx::bulk_load(ring_.queries(step_, to_), from, panel, full);
        if (high) ptx::bulk_load(ring_.queries(step_, to_) + panel, from + panel, panel, full);
      }
      from += static_cast<i64>(value_heads) * Correction::Factor::bytes;
      to_.next();
    }
  }

 private:
  static KDA_DEVICE bool leads() { return threadIdx.x % 32 == 0; }

  const Ring& ring_;
  const abi::segments::Args& args_;
  const Part& part_;
  Cursor to_;
  Step step_;
};

KDA_DEVICE void feed(const Ring& ring, const abi::segments::Args& args, const Part& part) {
  Feed feed(ring, args, part);
  // The first before anything is known.  Where it is not wanted, as under strong gates, it has to
  // land all the same (correct.cu).
  if (part.steps_first()) feed.step(1, true);
  int at = settled_before(args, part, part.first) + 1;
  if (at == 1 && part.steps_first()) at = 2;
#pragma unroll 1
  for (int index = part.first; index < part.end; ++index) {
    feed.steps(at, index);
    at = index;
    if (gives_up && part.looks()) feed.given_up(index);
    feed.queries(index);
  }
  if (part.finals) feed.steps(at, part.sequence.count);
}

// The warps that bring o and take it away.
KDA_DEVICE void move_outputs(const Ring& ring, const abi::segments::Args& args, const Part& part,
                             int warp) {
  const abi::Tensor& o = args.chain.out.o;
  const bool vectored = chunk_wgmma::moves_more_than_one<Correction>(o);
  Cursor here;
#pragma unroll 1
  for (int index = part.first; index < part.end; ++index) {
    const Share share(args, part, Known(args, part, index), index);
    if (share.own == 0) continue;
    const chunk_wgmma::Task task = share.task(part);
    chunk_wgmma::Rows<Correction> from(o, task, warp, vectored);
    chunk_wgmma::Rows<Correction> to(o, task, warp, vectored);
    chunk_wgmma::move_rows_by_hand<Correction>(ring, here, from, to, share.own);
    here.next(share.own);
  }
}

}  // namespace kda
