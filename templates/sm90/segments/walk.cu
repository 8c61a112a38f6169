// Strategy segments, stage 2: the chunks of every segment at once, a block a (segment, value head,
// unit).  Columns of S evolve each on its own:
//   R = V - Kd S;   O = Qd S + Aq R;   S = diag(decay) S + Ak^T R
// so V columns that start from nothing give o_local and S_local, and the columns of the identity,
// with v = 0, give q~ and the transition T.  The first segment starts from the initial state and
// needs neither of these.  A warpgroup has 64 columns.  A unit of two has V columns and K columns,
// which take as long as each other or, once T has come to nothing or is given up, no time at all.
// Or there are V columns alone, beside the prepare stage, and no T (carry.cu).
#include "abi/segments.h"
#include "base/guard.cuh"
#include "base/segment.cuh"
#include "base/slots.cuh"
#include "base/types.cuh"
#include "base/varlen.cuh"
#include "ptx/dependent.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/special_registers.cuh"
#include "sm90/chunk_wgmma/consumer.cuh"
#include "sm90/segments/checkpoint.cuh"
#include "sm90/segments/looks.cuh"
#include "sm90/segments/tiles.cuh"
#include "sm90/segments/walk_feed.cuh"
#include "sm90/segments/walk_part.cuh"
#include "sm90/segments/walk_transition.cuh"
#include "sm90/stay_out.cuh"

namespace kda {

template <int count>
KDA_DEVICE bool is_finite(const float (&s)[count][4]) {
  float sum = 0.0F;
#pragma unroll
  for (int k = 0; k < count; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sum += s[k][e] * 0.0F;
  }
  return sum == 0.0F;
}

// This thread's warp's first column within its tile.
KDA_DEVICE int warp_column() { return static_cast<int>(ptx::thread_now()) % 128 / 32 * 16; }

template <bool identity>
KDA_DEVICE void begin_state(Chain::State& state, const abi::segments::Args& args,
                            const Part& part) {
  if constexpr (identity) {
    set_identity(state, part.key_tile() * 64 + warp_column());
  } else {
    const Slots<shape> slots(args.chain.out, part.segment.n);
    if (slots.has_start() && part.segment.index == 0) {
      state.load(slots.start(args.chain.out, args.chain.in, part.head),
                 (part.value_tile() + own_tile()) * 64 + warp_column());
    } else {
      state.clear();
    }
  }
}

// left: chunks that the chain did not go, as T had come to nothing or was given up.
template <bool identity>
KDA_DEVICE void leave_state(Chain::State& state, const abi::segments::Args& args, const Part& part,
                            int left) {
  const i64 head_slot = part.head_slot(args.chain.in);
  const bool wanted = shape.final_state || !part.segment.last();
  if constexpr (identity) {
    const int tile = part.key_tile();
    bool is_left = left == 0;
    bool is_wanted = wanted;
    if constexpr (gives_up) {
      const bool given_up = left > 0 && is_alive(state.s[0]);
      if (threadIdx.x % 128 == 0) {
        args.given_up.looks[head_slot * 2 + tile] = given_up ? look_at(left) : -1;
      }
      is_left |= given_up;
      is_wanted |= given_up;
    }
    if (is_wanted) store_transition(args.segments, head_slot, tile * 64, state, is_left);
    if (threadIdx.x % 128 == 0) {
      const int chunks = part.task(args.segments.chunks, tile).chunks;
      args.segments.known[head_slot * 2 + tile] = {chunks - left, left == 0 ? 1 : 0};
    }
  } else {
    const int tile = part.value_tile() + own_tile();
    if (wanted && part.segment.count == 1) {
      const Slots<shape> slots(args.chain.out, part.segment.n);
      const int column = tile * 64 + warp_column();
      state.store(Slots<shape>::at(args.chain.out, args.chain.in, slots.own, part.head), column);
      const int tokens = args.segments.chunks * chunk;
      if (part.segment.ends_whole(tokens)) {
        segments::keep<shape>(args, part.segment.n, part.head, tokens, state, column);
      }
    } else if (wanted) {
      segments::store_tile(state.s[0], Tiles::at(args.segments, head_slot, tile));
      if constexpr (!carried) {
        const bool finite = __all_sync(0xffffffffU, is_finite(state.s[0]));
        args.segments.finite[(head_slot * Tiles::count + tile) * 4 + warp_column() / 16] = finite;
      }
    }
  }
}

// Chains of V columns that note how long they are, beside which others may be nothing.
struct NotesLengths : chunk_wgmma::WholeChain {
  const abi::segments::Args& args;
  const Chain::Ring& ring;
  int chunks;

  KDA_DEVICE NotesLengths(const abi::segments::Args& of, const Chain::Ring& in, int all)
      : args(of), ring(in), chunks(all) {}
  KDA_DEVICE bool reads_state(int left) const {
    return carried ? abi::segments::is_carry_look(chunks - left) : is_look(left);
  }
  KDA_DEVICE bool goes_on(int left, const Chain::State& state) const {
    if (reads_state(left)) {
      const u32 tile = ptx::ld_shared_u32(tile_of(ring)) + static_cast<u32>(own_tile());
      float* to =
          carried ? carry_noted_at<shape>(args, tile, abi::segments::carry_look_at(chunks - left))
                  : noted_at<shape>(args, tile, look_at(left));
      note(state.s[0], to, static_cast<int>(threadIdx.x) % 128);
    }
    return true;
  }
};

// A text each for V columns and those of T: in one for both, ptxas takes all that its branches
// depend on for different from lane to lane, and each product's descriptor comes late.
template <bool identity>
KDA_DEVICE void consume(const Chain::Ring& ring, const abi::segments::Args& args, const Part& part,
                        const Task& task) {
  int left = task.chunks;
  if (tune.warpgroups == 1 || (identity ? part.key_tile() : part.value_tile()) >= 0) {
    Chain::State state;
    begin_state<identity>(state, args, part);
    if constexpr (identity) {
      left = chunk_wgmma::consume<Chain>(ring, args.chain, task, state,
                                         Transitions{ring, args.given_up.again});
    } else if constexpr (gives_up || carried) {
      left = chunk_wgmma::consume<Chain>(ring, args.chain, task, state,
                                         NotesLengths(args, ring, task.chunks));
    } else {
      left = chunk_wgmma::consume<Chain>(ring, args.chain, task, state);
    }
    leave_state<identity>(state, args, Part::here(args), left);
  }
  if (!carried && tune.warpgroups == 2 && left > 0) {
    pass(ring, Part::here(args).task(args.segments.chunks, 0).chunks, left);
  }
}

// A part of a sequence that is padding.
KDA_DEVICE void pass_by(const abi::segments::Args& args, const Part& part) {
  ptx::wait_for_previous();  // the run ends after its prepare stage
  if (!shape.zero_padding || part.value_tile() < 0) return;
  const Task task = part.task(args.segments.chunks, part.value_tile());
  const abi::Tensor& o = args.chain.out.o;
  auto* to = static_cast<storage<Chain::type>*>(const_cast<void*>(o.data)) +
             offset_of<shape.varlen>(o, task.n, task.sequence.begin, task.head);
  const i64 rest = task.sequence.length() - task.first;
  const i64 tokens = static_cast<i64>(task.chunks) * chunk;
  write_zeros<Chain::type>(
      to + task.first * o.token + task.value0, o.token, rest < tokens ? rest : tokens,
      smaller(ValueRows::columns, Chain::values - task.value0), Chain::threads);
}

extern "C" __global__ void __launch_bounds__(Chain::threads, Chain::resident)
    kda_segments_walk(const __grid_constant__ Guardable<abi::segments::Args> given) {
  extern __shared__ __align__(1024) char memory[];

  const abi::segments::Args& args = unguarded(given);
  const abi::Inputs& in = args.chain.in;
  if (in.tokens == 0) ptx::wait_for_previous();  // else the prepare stage did
  ptx::launch_dependents();
  if (ends_at_once<shape>(given, in)) return;
  if constexpr (gives_up) {
    if (args.given_up.again) {
      ptx::wait_for_previous();
      if (__ldcg(args.given_up.unsure) == 0) return;
    } else if (blockIdx.x == 0 && threadIdx.x == 0) {
      *args.given_up.unsure = 0;
    }
  }
  const Part part = Part::here(args);
  if (part.is_idle()) return;
  // First segments know no T, and may have begun from what the final state has been written over.
  if (gives_up && args.given_up.again && part.segment.index == 0) return;
  if constexpr (shape.state_pool) {
    if (Slots<shape>(args.chain.out, part.segment.n).padding) {
      pass_by(args, part);
      return;
    }
  }
  const Task task = part.task(args.segments.chunks, 0);
  if constexpr (carried) {
    if (threadIdx.x < tune.warpgroups) {
      args.carried.ends[part.tile(in) + threadIdx.x] = abi::segments::unknown;
    }
  }

  const Chain::Ring ring(memory);
  if (threadIdx.x == 0) {
    ring.init(by_engine(args, part));
    ptx::st_shared_u32(stop_of(ring), 0);
    if (gives_up || carried) ptx::st_shared_u32(tile_of(ring), part.tile(in));
  }
  __syncthreads();
  // The same for a whole warp, and known to be: products may not sit in divergent code.
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < Chain::consumers / 32) {
    if constexpr (carried) {
      consume<false>(ring, args, part, task);
    } else if (tune.warpgroups == 2 ? warp >= 4 : part.value_tile() < 0) {
      consume<true>(ring, args, part, task);
    } else {
      consume<false>(ring, args, part, task);
    }
  } else {
    produce(ring, args, part, task, warp - Chain::consumers / 32);
  }
}

}  // namespace kda
