// Strategy segments where V columns alone were walked, stage 3: what the state before a segment
// adds to it, a block a (segment, value head, 64 V columns).  Chains are linear in their state and
// in v, so that state, walked with v = 0, adds its o and its end to those of the chain that began
// from nothing.  It is S_local of the segment before, and what is left at that one's end of the
// states before it: mostly nothing, else the block goes through its segment once more; and where
// much is left at any end, it first finds T (carry_jump.cuh).
#include "abi/by_gates.h"
#include "abi/segments.h"
#include "base/guard.cuh"
#include "base/slots.cuh"
#include "base/types.cuh"
#include "ptx/barrier.cuh"
#include "ptx/dependent.cuh"
#include "ptx/shared_words.cuh"
#include "sm90/chunk_wgmma/consumer.cuh"
#include "sm90/segments/carry_chain.cuh"
#include "sm90/segments/carry_ends.cuh"
#include "sm90/segments/carry_feed.cuh"
#include "sm90/segments/carry_jump.cuh"
#include "sm90/segments/carry_spoilt.cuh"
#include "sm90/segments/looks.cuh"
#include "sm90/segments/tiles.cuh"
#include "sm90/segments/walk_part.cuh"
#include "sm90/segments/walk_transition.cuh"
#include "sm90/stay_out.cuh"

namespace kda {

// How much of a segment there are factors of.
struct Reach {
  int left_out = 0;      // chunks of its last of which there are none
  bool forgets = false;  // within the others, whatever the state: T has come to nothing
};

// What goes through the segment.
struct Turn {
  enum class Of { local, identity, rest };
  Of of =
      Of::local;   // S_local before it; 64 columns of the identity; what is left of states before
  int column = 0;  // of the identity, the first
  bool keeps = true;  // whether the end of what goes is not known otherwise
};

// Whether that is much beside S_local, whose length is what the next one's chain compares with.
KDA_DEVICE bool is_much(const Chain::State& state, const float* local) {
  constexpr float most = abi::segments::much * abi::segments::much;
  const RowSums own(state.s[0], square);
  Chain::State other;
  segments::load_tile(other.s[0], local);
  const RowSums beside(other.s[0], square);
  const bool is = !(own.of[0] <= most * beside.of[0]) || !(own.of[1] <= most * beside.of[1]);
  return ptx::barrier_vote_any(1, 128, is);
}

// One turn; had: whether those before have left something.
KDA_DEVICE Left carry(const Chain::Ring& ring, const abi::segments::Args& args, const Part& part,
                      const Task& task, const Reach& reach, bool stops, const Turn& turn,
                      bool had) {
  const abi::Inputs& in = args.chain.in;
  const i64 own = part.head_slot(in);
  const i64 before = own - in.value_heads;
  const int tile = part.value_tile();
  const bool looks = turn.of != Turn::Of::identity;
  Chain::State state;
  segments::load_tile(state.s[0], Tiles::at(args.segments, before, tile));
  RowSums begun(state.s[0], square);
  if (turn.of == Turn::Of::rest) {
    // Little beside S_local, and to become little beside that, not beside itself.
    segments::load_tile(state.s[0], carried_at(args, before, tile));
    const RowSums rest(state.s[0], square);
    for (int row = 0; row < 2; ++row) begun.of[row] = fmaxf(begun.of[row], rest.of[row]);
  } else if (turn.of == Turn::Of::identity) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    set_identity(state, turn.column + warp * 16);
  }
  const Carry chain(ring, args, part.tile(in), task, begun, looks, stops);
  const int left = chunk_wgmma::consume<Chain>(ring, args.chain, task, state, chain);
  const Left as_before = had ? Left::something : Left::nothing;
  if (left > 0) {
    if (!stops) pass(ring, task.chunks, left);
    return as_before;
  }
  if (turn.of == Turn::Of::identity) {
    store_transition(args.segments, part.tile(in), turn.column, state, true);
    return as_before;
  }
  if (!turn.keeps) return as_before;
  if (reach.forgets) {
    const Spoilt spoilt(state);
    if (!ptx::barrier_vote_any(1, 128, spoilt.any())) return as_before;
    spoilt.leave_alone(state);
    spoilt.leave_outputs(args.chain.out.o, task, reach.left_out);
  }
  float* to = carried_at(args, own, tile);
  if (had) add_tile(state.s[0], to);
  segments::store_tile(state.s[0], to);
  const bool asked = reach.left_out == 0 && !part.segment.last();
  return asked && is_much(state, Tiles::at(args.segments, own, tile)) ? Left::much
                                                                      : Left::something;
}

// The task by where its factors were kept, up to the last of them.
KDA_DEVICE Reach cut_to_kept(const abi::segments::Args& args, const Part& part, const Ends& ends,
                             Task& task) {
  const int kept = args.carried.kept;
  task.slot =
      ((part.segment.index - 1) * static_cast<i64>(args.chain.in.sequences) + task.n) * kept;
  const bool little = ends.little_kept();
  const int there = little ? abi::by_gates::kept_where_forgotten : kept;
  const int left_out = larger(task.chunks - there, 0);
  task.chunks -= left_out;
  return {left_out, little && left_out > 0};
}

// The state after the sequence.
KDA_DEVICE void leave_final(const abi::segments::Args& args, const Part& part, bool had) {
  const i64 own = part.head_slot(args.chain.in);
  const int tile = part.value_tile();
  Chain::State state;
  segments::load_tile(state.s[0], Tiles::at(args.segments, own, tile));
  if (had) add_tile(state.s[0], carried_at(args, own, tile));
  const Slots<shape> slots(args.chain.out, part.segment.n);
  state.store(Slots<shape>::at(args.chain.out, args.chain.in, slots.own, part.head),
              tile * 64 + static_cast<int>(threadIdx.x) / 32 * 16);
}

// What the turn has left, from its consumers to all of the block.
KDA_DEVICE Left all_learn(Left what) {
  const bool something = any_of_block(what != Left::nothing);
  const bool much = any_of_block(what == Left::much);
  return much ? Left::much : (something ? Left::something : Left::nothing);
}

extern "C" __global__ void __launch_bounds__(Chain::threads, Chain::resident)
    kda_segments_carry(const __grid_constant__ Guardable<abi::segments::Args> given) {
  extern __shared__ __align__(1024) char memory[];

  const abi::segments::Args& args = unguarded(given);
  if (ends_at_once<shape>(given, args.chain.in)) return;
  ptx::launch_dependents();
  const Part part = Part::here(args);
  if (!part.segment.exists() || part.segment.index == 0) {
    // The run ends after the walk; the first block is one of these.
    if (blockIdx.x == 0) ptx::wait_for_previous();
    return;
  }
  if (shape.state_pool && Slots<shape>(args.chain.out, part.segment.n).padding) return;
  Task task = part.task(args.segments.chunks, part.value_tile());
  const bool by_engine = chunk_wgmma::by_engine<Chain>(args.rows);
  const Chain::Ring ring(memory);
  // The same for a whole warp, and known to be: products may not sit in divergent code.
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  constexpr int consumer_warps = Chain::consumers / 32;
  Ends ends(args, part);
  Reach reach;
  Turn turn;
  Left what = Left::nothing;
  bool has_told = false;  // of all turns
#pragma unroll 1
  for (;;) {
    const bool adds = turn.of != Turn::Of::identity;
    if (threadIdx.x == 0) {
      ring.init_for(!adds ? 0 : (by_engine ? 1 : 32 * Chain::row_warps));
      ptx::st_shared_u32(stop_of(ring), 0);
    }
    __syncthreads();
    if (turn.of == Turn::Of::local) {
      ptx::wait_for_previous();
      if (args.carried.kept > 0) reach = cut_to_kept(args, part, ends, task);
    }
    if (warp < consumer_warps) {
      what = carry(ring, args, part, task, reach, by_engine, turn, what != Left::nothing);
    } else {
      bring(ring, args, task, by_engine, adds, warp - consumer_warps);
    }
    __syncwarp();
    what = all_learn(what);  // those who bring chunks, too
    if (threadIdx.x == 0) ring.retire();
    if constexpr (guarded) {
      if (reach.left_out > 0 && !reach.forgets && what != Left::nothing) {  // it goes another way
        if (threadIdx.x == 0) findings(given)[blockIdx.x % abi::guard_words] = abi::found_later;
        what = Left::nothing;
      }
    }
    if (turn.of == Turn::Of::local) {
      ends.tell_first(what);
      const Ends::Before before = ends.first_before();
      if (!before.something) break;
      if (before.much && reach.left_out == 0 && ends.is_sooner_by_transition()) {
        turn = {.of = Turn::Of::identity};
      } else if (ends.is_left_before()) {
        turn = {.of = Turn::Of::rest};
      } else {
        break;
      }
    } else if (turn.of == Turn::Of::identity) {
      turn.column += 64;
      if (turn.column < keys) continue;
      if (!ends.is_left_before()) break;
      if (warp < consumer_warps) jump(ring, args, part, what != Left::nothing);
      what = Left::something;
      ends.tell(what);
      has_told = true;
      turn = {.of = Turn::Of::rest, .keeps = false};
      __syncthreads();  // the ring is where T was
    } else {
      break;
    }
  }
  if (!has_told) ends.tell(what);
  if (shape.final_state && part.segment.last() && warp < consumer_warps) {
    leave_final(args, part, what != Left::nothing);
  }
}

}  // namespace kda
