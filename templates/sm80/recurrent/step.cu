// Token by token, exact for every gate.  A block owns a slice of one sequence's and
// value head's columns of S in registers; columns never meet, so blocks never do.
//
// For a few tokens the state's traffic is all that counts: its loads are in flight while the first
// tokens are fetched and activated, and nothing waits for them before.  Tokens go through shared
// memory.  With two stages the next ones' loads are in flight while a stage is at work, and one
// barrier a stage suffices, since whoever fills a stage has passed the barrier that ends its last
// use; with one stage, for decoding, registers hold more of the state instead.
//
// With short_tokens it is the last stage of a strategy of chunks and serves the sequences that
// those left.  A block looks at several, so that there need not be as many as there might be short
// ones: blocks that only begin to end take their time, too.  It runs beside the stage before: it
// touches nothing of that one's, and is launched once every block of it has begun, so that whatever
// came before the first stage, which starts after all of that or waits for it, has ended.  Only the
// last block waits, at its end, so that the run does not end before its chunks.
#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

#include "abi/recurrent.h"
#include "base/guard.cuh"
#include "base/slots.cuh"
#include "base/types.cuh"
#include "base/varlen.cuh"
#include "ptx/dependent.cuh"
#include "ptx/special_registers.cuh"
#include "sm80/recurrent/output.cuh"
#include "sm80/recurrent/state.cuh"
#include "sm80/recurrent/token.cuh"

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::recurrent::StepTuning given = KDA_TUNING;
constexpr abi::recurrent::Tuning tune = abi::recurrent::tuning_of(given);
constexpr bool beside = given.short_tokens > 1;
static_assert(beside || !guarded, "alone it is always at work");
constexpr abi::recurrent::Geometry geometry = abi::recurrent::geometry_of(shape, tune);

using State = recurrent::State<shape, tune>;
using Tokens = recurrent::Tokens<shape, tune>;
using Stage = recurrent::Stage<shape, tune>;
using Sums = recurrent::Sums<shape, tune>;
using Args = abi::recurrent::StepArgs<shape.committed_tokens>;

// Tokens of sequence n that its final state knows.
template <class A>
KDA_DEVICE i64 committed_of(const A& args, int n, i64 length) {
  if constexpr (shape.committed_tokens) {
    if (args.committed_tokens == nullptr) return length;
    const i64 committed = Slots<shape>::load(args.committed_tokens, n);
    return committed < 0 ? 0 : committed < length ? committed : length;
  }
  return length;
}

// The block's columns of sequence n, with all its tokens.  warp: the thread's; stages and sums: the
// block's shared memory.
KDA_DEVICE void serve(const Args& args, Stage* stages, Sums& sums, State& state, int n, int head,
                      int warp) {
  const Slots<shape> slots(args.out, n);
  const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(args.in, n);
  const i64 length = sequence.length();
  const i64 committed = committed_of(args, n, length);
  auto* o_row = static_cast<storage<shape.qkv_type>*>(const_cast<void*>(args.out.o.data)) +
                offset_of<shape.varlen>(args.out.o, n, sequence.begin, head);
  if (shape.state_pool && slots.padding) {
    if (shape.zero_padding) {
      const int columns = smaller(geometry.block_columns, shape.value_dim - state.block_column);
      write_zeros<shape.qkv_type>(o_row + state.block_column, args.out.o.token, length, columns,
                                  tune.threads);
    }
    return;
  }

  Tokens tokens(args.in, args.out.pool, n, sequence.begin, head, state.block_column);
  Tokens::Raw next;
  if (warp < geometry.tokens && warp < length) tokens.fetch(next, warp);
  State::Raw initial;
  if constexpr (shape.initial_state) {
    state.fetch(initial, slots.start(args.out, args.in, head), slots.has_start());
  }
  tokens.load_gate(head);
  if constexpr (given.ahead != 0) {
    for (int t = warp; t < geometry.tokens && geometry.tokens + t < length;
         t += tune.threads / 32) {
      tokens.prefetch(geometry.tokens + t);
    }
  }

  // Stage `buffer` holds tokens first ..., once the block has met.
  const auto fill = [&](Stage& stage, i64 first) {
    if constexpr (tune.stages == 1) {
      for (int t = warp; t < geometry.tokens && first + t < length; t += tune.threads / 32) {
        if (t > warp || first > 0) tokens.fetch(next, first + t);
        tokens.activate(stage, t, next);
      }
    } else {
      if (warp < geometry.tokens && first + warp < length) tokens.activate(stage, warp, next);
    }
  };
  if (length > 0) fill(stages[0], 0);

  if constexpr (shape.initial_state) {
    state.unpack(initial);
  } else {
    state.clear();
  }

  Checkpoints<shape> checkpoints(args.out.pool, n, 1);
  int buffer = 0;
  for (i64 first = 0; first < length; first += geometry.tokens) {
    Stage& stage = stages[buffer];
    if (tune.stages == 2) buffer ^= 1;
    if (first > 0) {
      if (tune.stages == 1) __syncthreads();  // all have left the stage
      fill(stage, first);
    }
    __syncthreads();
    if constexpr (tune.stages == 2) {
      const i64 wanted = first + geometry.tokens + warp;
      if (warp < geometry.tokens && wanted < length) tokens.fetch(next, wanted);
    }

    const int count =
        length - first < geometry.tokens ? static_cast<int>(length - first) : geometry.tokens;
#pragma unroll 1
    for (int t = 0; t < count; ++t) {
      if constexpr (shape.committed_tokens) {
        if (first + t == committed) {
          state.store_rarely(Slots<shape>::at(args.out, args.in, slots.own, head));
        }
      }
      float o[State::outputs];
      state.step(o, stage, t, sums);
      recurrent::write_output<shape>(o_row, state, o);
      o_row += args.out.o.token;
      if constexpr (shape.draft_states) {
        const i64 slot = stage.slot[t];
        if (slot != no_slot) state.store(Slots<shape>::at(args.out, args.in, slot, head));
      }
      if constexpr (shape.checkpoints) {
        const i64 slot = checkpoints.step();
        if (slot != no_slot) state.store(Slots<shape>::at(args.out, args.in, slot, head));
      }
    }
  }

  if constexpr (shape.final_state && !shape.draft_states) {
    if (committed == length) state.store(Slots<shape>::at(args.out, args.in, slots.own, head));
  }
}

// From lane 0, so that the compiler sees one value a warp.
KDA_DEVICE int warp_of_block() {
  return __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
}

// Which sequence, or of several the first, is the block's; read where it stands, so that no
// register holds it from one sequence to the next.
KDA_DEVICE int sequence_now(const Args& args, u32 block) {
  return static_cast<int>(block / geometry.slices / static_cast<u32>(args.in.value_heads));
}

// Of every so many sequences the short ones, 32 looked at at once.
KDA_DEVICE void serve_short(const Args& args, Stage* stages, Sums& sums, State& state) {
#pragma unroll 1
  for (int round = 0;; ++round) {
    // Sequence i of the round.
    const auto sequence = [&](int i) {
      return sequence_now(args, ptx::block_now()) +
             (round * 32 + i) * sequence_now(args, ptx::blocks_now());
    };
    if (sequence(0) >= args.in.sequences) return;
    const int own = sequence(static_cast<int>(ptx::thread_now() % 32));
    const bool is_short =
        own < args.in.sequences && sequence_of<shape.varlen, shape.cu_seqlens_type>(args.in, own)
                                           .chunked(given.short_tokens) == 0;
    u32 left = __ballot_sync(0xffffffffU, is_short);
#pragma unroll 1
    for (; left != 0; left &= left - 1) {
      __syncthreads();  // all have left what the sequence before had in memory
      const int head = static_cast<int>(ptx::block_now() / geometry.slices %
                                        static_cast<u32>(args.in.value_heads));
      serve(args, stages, sums, state, sequence(__ffs(static_cast<int>(left)) - 1), head,
            warp_of_block());
    }
  }
}

}  // namespace kda

extern "C" __global__ void __launch_bounds__(kda::tune.threads,
                                             kda::abi::recurrent::resident_blocks(kda::shape,
                                                                                  kda::given))
    kda_recurrent_step(const __grid_constant__ kda::Guardable<kda::Args> called) {
  using namespace kda;
  const Args& args = unguarded(called);
  __shared__ Stage stages[tune.stages];
  __shared__ Sums sums;  // left out by the compiler where each column is one warp's

  const u32 heads = static_cast<u32>(args.in.value_heads);
  const int slice = static_cast<int>(blockIdx.x % geometry.slices);
  const u32 sequence_head = blockIdx.x / geometry.slices;
  const int head = static_cast<int>(sequence_head % heads);
  const int n = static_cast<int>(sequence_head / heads);
  const int warp = warp_of_block();
  State state(slice);
  // The next kernel of the stream may take its places; its own wait keeps it from our outputs.
  ptx::launch_dependents();
  if (!beside || args.in.tokens == 0) ptx::wait_for_previous();  // without tokens it is the first

  if constexpr (!beside) {
    serve(args, stages, sums, state, n, head, warp);
  } else {
    if (!stays_out<shape>(called, args.in)) serve_short(args, stages, sums, state);
    if (blockIdx.x == gridDim.x - 1) ptx::wait_for_previous();
  }
}
