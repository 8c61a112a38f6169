// Strategy segments where V columns alone were walked, stage 3: what the state before a segment
// adds to it, a block a (segment, value head, 64 V columns).  Chains are linear in their state and
// in v, so that state, walked with v = 0, adds its o and its end to those of the chain that began
// from nothing.  It is S_local of the segment before, and what is left at that one's end of the
// states before it: mostly nothing, else the block goes through its segment once more.
#include "abi/by_gates.h"
#include "abi/segments.h"
#include "base/guard.cuh"
#include "base/slots.cuh"
#include "base/types.cuh"
#include "ptx/barrier.cuh"
#include "ptx/dependent.cuh"
#include "ptx/shared_words.cuh"
#include "sm90/chunk_wgmma/consumer.cuh"
#include "sm90/segments/carry_ends.cuh"
#include "sm90/segments/carry_feed.cuh"
#include "sm90/segments/carry_spoilt.cuh"
#include "sm90/segments/looks.cuh"
#include "sm90/segments/tiles.cuh"
#include "sm90/segments/walk_part.cuh"
#include "sm90/stay_out.cuh"

namespace kda {

// A chain of the state before the segment.
struct Carry {
  static constexpr bool begins_before = true;
  static constexpr bool adds = true;
  const Chain::Ring& ring;
  const abi::segments::Args& args;
  u32 tile;  // of S_local
  int chunks;
  float unscaled;            // o is added to before it is scaled
  bool stops;                // whether those who bring chunks are told when no more are wanted
  float begun[2];            // squared lengths of this lane's two columns before the segment
  mutable float lengths[2];  // and at the next look, of S_local's

  KDA_DEVICE Carry(const Chain::Ring& in, const abi::segments::Args& of, u32 of_tile,
                   const Task& task, const RowSums& before, bool tells)
      : ring(in),
        args(of),
        tile(of_tile),
        chunks(task.chunks),
        unscaled(1.0F / of.chain.in.scale),
        stops(tells),
        begun{before.of[0], before.of[1]} {
    fetch(1);
  }

  template <class Chain>
  KDA_DEVICE void load_values(u32 (&o)[Chain::chunk_tiles / 2][4], u32 own) const {
    chunk_wgmma::load_values_transposed<Chain>(o, own);
  }
  KDA_DEVICE bool goes_on(int left, const Chain::State& state) const {
    const int gone = chunks - left;
    bool goes = true;
    if (abi::segments::is_carry_look(gone)) {
      goes = ptx::barrier_vote_any(1, 128, is_seen(state));
      if (!goes && stops && threadIdx.x == 0) {
        ptx::st_shared_u32(stop_of(ring), static_cast<u32>(left));
      }
      // Known to be the same for a whole warp (Transitions).
      goes = __shfl_sync(0xffffffffU, goes ? 1 : 0, 0) != 0;
    }
    if (abi::segments::is_carry_look(gone + 1)) fetch(gone + 1);
    return goes;
  }

 private:
  // Ahead of the look: they come from the L2.
  KDA_DEVICE void fetch(int gone) const {
    const float* from = carry_lengths_at(args, tile, abi::segments::carry_look_at(gone));
    lengths[0] = __ldcg(from);
    lengths[1] = __ldcg(from + 8);
  }

  // Whether what is carried may be seen beside S_local's columns; nor is it forgotten while it is
  // not small beside the state before the segment, as what has been written since may be taken
  // away again.
  KDA_DEVICE bool is_seen(const Chain::State& state) const {
    constexpr float most = abi::segments::most_lost * abi::segments::most_lost;
    // Squares of shorter ones lose their last bits, and of longer ones may be infinite.
    constexpr float least = 0x1p-90F;
    constexpr float longest = 0x1p126F;
    const RowSums squares(state.s[0], square);
    bool seen = false;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      if (lengths[row] >= least && lengths[row] <= longest) {
        seen |= !(squares.of[row] <= most * fminf(lengths[row], begun[row]));
      } else {  // unless nothing is carried into such a column
        seen |= !is_nothing(state.s[0], row);
      }
    }
    return seen;
  }

  template <int count>
  static KDA_DEVICE bool is_nothing(const float (&s)[count][4], int row) {
    u32 bits = 0;
#pragma unroll
    for (const auto& x : s) {
#pragma unroll
      for (int e = 0; e < 2; ++e) bits |= __float_as_uint(row == 0 ? x[e] : x[2 + e]);
    }
    return (bits & 0x7fffffffU) == 0;
  }
};

// Of the carried states.
KDA_DEVICE float* carried_at(const abi::segments::Args& args, i64 head_slot, int tile) {
  return args.carried.states + (head_slot * Tiles::count + tile) * (Tiles::bytes / 4);
}

template <int count>
KDA_DEVICE void add_tile(float (&s)[count][4], const float* tile) {
  float other[count][4];
  segments::load_tile(other, tile);
#pragma unroll
  for (int k = 0; k < count; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) s[k][e] += other[k][e];
  }
}

// How much of a segment there are factors of.
struct Reach {
  int left_out = 0;      // chunks of its last of which there are none
  bool forgets = false;  // within the others, whatever the state: T has come to nothing
};

// One turn through the segment: of S_local before it, or of what is left of states before that.
// Returns whether something is left at its end, or at that of its factors; had: whether the turn
// before has left something.
KDA_DEVICE bool carry(const Chain::Ring& ring, const abi::segments::Args& args, const Part& part,
                      const Task& task, const Reach& reach, bool stops, int turn, bool had) {
  const abi::Inputs& in = args.chain.in;
  const i64 own = part.head_slot(in);
  const i64 before = own - in.value_heads;
  const int tile = part.value_tile();
  Chain::State state;
  segments::load_tile(state.s[0], Tiles::at(args.segments, before, tile));
  RowSums begun(state.s[0], square);
  if (turn > 0) {  // little beside S_local, and to become little beside that, not beside itself
    segments::load_tile(state.s[0], carried_at(args, before, tile));
    const RowSums own(state.s[0], square);
    for (int row = 0; row < 2; ++row) begun.of[row] = fmaxf(begun.of[row], own.of[row]);
  }
  const int left = chunk_wgmma::consume<Chain>(
      ring, args.chain, task, state, Carry(ring, args, part.tile(in), task, begun, stops));
  if (left > 0) {
    if (!stops) pass(ring, task.chunks, left);
    return had;
  }
  if (reach.forgets) {
    const Spoilt spoilt(state);
    if (!ptx::barrier_vote_any(1, 128, spoilt.any())) return had;
    spoilt.leave_alone(state);
    spoilt.leave_outputs(args.chain.out.o, task, reach.left_out);
  }
  float* to = carried_at(args, own, tile);
  if (had) add_tile(state.s[0], to);
  segments::store_tile(state.s[0], to);
  return true;
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
  const Ends ends(args, part);
  Reach reach;
  bool had = false;
#pragma unroll 1
  for (int turn = 0; turn < 2; ++turn) {
    if (turn > 0 && !ends.leave_something_before()) break;
    if (threadIdx.x == 0) {
      ring.init(by_engine);
      ptx::st_shared_u32(stop_of(ring), 0);
    }
    __syncthreads();
    if (turn == 0) {
      ptx::wait_for_previous();
      if (args.carried.kept > 0) reach = cut_to_kept(args, part, ends, task);
    }
    if (warp < consumer_warps) {
      had = carry(ring, args, part, task, reach, by_engine, turn, had);
    } else {
      bring(ring, args, task, by_engine, warp - consumer_warps);
    }
    __syncwarp();
    had = __syncthreads_or(had ? 1 : 0) != 0;  // those who bring chunks learn it, too
    if (threadIdx.x == 0) ring.retire();
    if constexpr (guarded) {
      if (reach.left_out > 0 && !reach.forgets && had) {  // the run goes another way
        if (threadIdx.x == 0) findings(given)[blockIdx.x % abi::guard_words] = abi::found_later;
        had = false;
      }
    }
    if (turn == 0 && !had) ends.tell(abi::segments::first_left_nothing);
  }
  ends.tell(had ? abi::segments::something_left : abi::segments::nothing_left);
  if (shape.final_state && part.segment.last() && warp < consumer_warps) {
    leave_final(args, part, had);
  }
}

}  // namespace kda
