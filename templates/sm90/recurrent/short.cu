// The last stage of strategies of chunks: serves the sequences that those left, of up to
// short_tokens tokens, as `step` does with short_tokens (sm80/recurrent/step.cu), with the same
// waits; but a block has a multiprocessor to itself and more on its way.
//
// A block owns a slice of a head's V columns and takes one sequence after another.  One warp brings
// their states to a ring in shared memory by bulk copies, two activate their tokens, and four take
// a state into registers, go through its tokens and write it from there.  So slices are on their
// way while one is at work, where a block that holds in registers what it asks for waits for it.
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
#include "ptx/bulk.cuh"
#include "ptx/dependent.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mbarrier.cuh"
#include "sm80/recurrent/output.cuh"
#include "sm80/recurrent/state.cuh"
#include "sm80/recurrent/token.cuh"

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::recurrent::ShortTuning given = KDA_TUNING;
constexpr abi::recurrent::Tuning tune = abi::recurrent::tuning_of(given);
constexpr abi::recurrent::Geometry geometry = abi::recurrent::geometry_of(shape, tune);
static_assert(shape.state_value_first && !shape.draft_states && !shape.committed_tokens &&
              !shape.checkpoints);

// Not by shares, which make no difference where bytes are waited for (256 decodes beside 8192
// tokens, 16 heads, 243.6 us and 243.8).
using State = recurrent::State<shape, tune, false>;
using Tokens = recurrent::Tokens<shape, tune>;
using Stage = recurrent::Stage<shape, tune>;
using Sums = recurrent::Sums<shape, tune>;
using Args = abi::recurrent::StepArgs<false>;

// The block's columns of one sequence.
struct Item {
  int n;
  i64 begin;
  int length;
  Slots<shape> slots;
};

// Items and tokens, each counted over the block, take places in turn; the parities of what was
// waited for follow from the count.
struct Rings {
  u32 states;  // shared addresses: slices,
  u32 come;    // [states] barriers: a slice is there,
  u32 taken;   // and in registers,
  u32 made;    // [tokens] a token is activated,
  u32 used;    // and has been taken in

  static constexpr int tokens = geometry.tokens;
  static constexpr int warps = tune.threads / 32;

  KDA_DEVICE void init() const {
    for (int i = 0; i < given.states; ++i) {
      ptx::mbarrier_init(come + 8 * i, 1);
      ptx::mbarrier_init(taken + 8 * i, 32 * warps);
    }
    for (int i = 0; i < tokens; ++i) {
      ptx::mbarrier_init(made + 8 * i, 32);
      ptx::mbarrier_init(used + 8 * i, 32 * warps);
    }
    ptx::fence_barrier_init();
  }

  // Until what was in the place of number `at` has gone; until that itself is there.
  static KDA_DEVICE void wait_free(u32 barriers, int at, int places) {
    if (at >= places) ptx::mbarrier_wait(barriers + 8 * (at % places), (at / places - 1) & 1);
  }
  static KDA_DEVICE void wait_filled(u32 barriers, int at, int places) {
    ptx::mbarrier_wait(barriers + 8 * (at % places), (at / places) & 1);
  }
  // By each lane: racecheck does not follow one's arrival for a warp that has met.
  static KDA_DEVICE void tell(u32 barriers, int at, int places) {
    ptx::mbarrier_arrive(barriers + 8 * (at % places));
  }
};

// Calls visit for each short one of sequences first, first + step, ...; a whole warp comes here and
// looks at 32 at once.
template <class Visit>
KDA_DEVICE void each_short(const Args& args, i64 first, i64 step, const Visit& visit) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (; first < args.in.sequences; first += 32 * step) {
    const i64 own = first + lane * step;
    Sequence sequence{0, 0};
    bool is_short = false;
    if (own < args.in.sequences) {
      sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(args.in, static_cast<int>(own));
      is_short = sequence.chunked(given.short_tokens) == 0;
    }
    const Slots<shape> slots(args.out, static_cast<int>(is_short ? own : first));
    u32 left = __ballot_sync(0xffffffffU, is_short);
#pragma unroll 1
    for (; left != 0; left &= left - 1) {
      const int i = __ffs(static_cast<int>(left)) - 1;
      Item item{static_cast<int>(first + i * step), __shfl_sync(0xffffffffU, sequence.begin, i),
                static_cast<int>(__shfl_sync(0xffffffffU, sequence.length(), i)), slots};
      item.slots.padding = __shfl_sync(0xffffffffU, static_cast<int>(slots.padding), i) != 0;
      item.slots.from = __shfl_sync(0xffffffffU, slots.from, i);
      item.slots.own = __shfl_sync(0xffffffffU, slots.own, i);
      visit(item);
    }
  }
}

// The part of a block, found anew by each of its warps: a head's slice, of every so many sequences.
struct Part {
  int head, column;
  i64 first, step;

  KDA_DEVICE explicit Part(const Args& args) {
    const u32 heads = static_cast<u32>(args.in.value_heads);
    column = static_cast<int>(blockIdx.x % geometry.slices) * geometry.block_columns;
    head = static_cast<int>(blockIdx.x / geometry.slices % heads);
    first = blockIdx.x / geometry.slices / heads;
    step = gridDim.x / geometry.slices / heads;
  }
};

// Where the item's slice lies; and whether a bulk copy brings it, as one of whole 16 bytes.
KDA_DEVICE const storage<shape.state_type>* slice_of(const Args& args, const Item& item,
                                                     const Part& part) {
  return item.slots.start(args.out, args.in, part.head) + part.column * shape.key_dim;
}
KDA_DEVICE bool is_brought(const Args& args, const Item& item, const Part& part) {
  return item.slots.has_start() && State::is_vectored(slice_of(args, item, part));
}

KDA_DEVICE void bring_states(const Args& args, const Part& part, const Rings& rings) {
  const int columns = smaller(geometry.block_columns, shape.value_dim - part.column);
  const u32 bytes = static_cast<u32>(columns * shape.key_dim * abi::bytes_of(shape.state_type));
  int at = 0;
  each_short(args, part.first, part.step, [&](const Item& item) {
    if (item.slots.padding) return;
    Rings::wait_free(rings.taken, at, given.states);
    if (threadIdx.x % 32 == 0) {
      const int place = at % given.states;
      const u32 come = rings.come + 8 * place;
      if (is_brought(args, item, part)) {
        ptx::mbarrier_arrive_expecting(come, bytes);
        ptx::bulk_load(rings.states + place * abi::recurrent::slice_bytes(shape, given),
                       slice_of(args, item, part), bytes, come);
      } else {
        ptx::mbarrier_arrive(come);
      }
    }
    ++at;
  });
}

// Every so many tokens, a warp.
KDA_DEVICE void bring_tokens(const Args& args, const Part& part, const Rings& rings, Stage& stage,
                             int warp) {
  Tokens tokens(args.in, args.out.pool, 0, 0, part.head, part.column);
  tokens.load_gate(part.head);
  int at = 0;
  each_short(args, part.first, part.step, [&](const Item& item) {
    if (item.slots.padding) return;
    tokens.turn_to(item.n, item.begin, part.head);
#pragma unroll 1
    for (int t = 0; t < item.length; ++t, ++at) {
      if (at % abi::recurrent::token_warps != warp) continue;
      typename Tokens::Raw raw;
      tokens.fetch(raw, t);
      Rings::wait_free(rings.used, at, Rings::tokens);
      tokens.activate(stage, at % Rings::tokens, raw);
      Rings::tell(rings.made, at, Rings::tokens);
    }
  });
}

KDA_DEVICE void serve(const Args& args, const Part& part, const Rings& rings, const char* slices,
                      const Stage& stage, Sums& sums) {
  State state(part.column / geometry.block_columns);
  int at = 0;
  int token = 0;
  each_short(args, part.first, part.step, [&](const Item& item) {
    auto* o_row = static_cast<storage<shape.qkv_type>*>(const_cast<void*>(args.out.o.data)) +
                  offset_of<shape.varlen>(args.out.o, item.n, item.begin, part.head);
    if (shape.state_pool && item.slots.padding) {
      if (shape.zero_padding) {
        const int columns = smaller(geometry.block_columns, shape.value_dim - part.column);
        write_zeros<shape.qkv_type>(o_row + part.column, args.out.o.token, item.length, columns,
                                    tune.threads);
      }
      return;
    }
    Rings::wait_filled(rings.come, at, given.states);
    if (is_brought(args, item, part)) {
      const char* slice = slices + at % given.states * abi::recurrent::slice_bytes(shape, given);
      state.take(reinterpret_cast<const storage<shape.state_type>*>(slice));
    } else if (item.slots.has_start()) {
      State::Raw raw;
      state.fetch(raw, item.slots.start(args.out, args.in, part.head), true);
      state.unpack(raw);
    } else {
      state.clear();
    }
    Rings::tell(rings.taken, at, given.states);
    ++at;
#pragma unroll 1
    for (int t = 0; t < item.length; ++t, ++token) {
      Rings::wait_filled(rings.made, token, Rings::tokens);
      float o[State::outputs];
      state.step(o, stage, token % Rings::tokens, sums);
      Rings::tell(rings.used, token, Rings::tokens);
      recurrent::write_output<shape>(o_row, state, o);
      o_row += args.out.o.token;
    }
    if constexpr (shape.final_state) {
      state.store(Slots<shape>::at(args.out, args.in, item.slots.own, part.head));
    }
  });
}

}  // namespace kda

extern "C" __global__ void __launch_bounds__(kda::abi::recurrent::short_threads, 1)
    kda_recurrent_short(const __grid_constant__ kda::Guardable<kda::Args> called) {
  using namespace kda;
  extern __shared__ __align__(128) char slices[];
  __shared__ Stage stage;
  __shared__ Sums sums;  // left out by the compiler: each column is one warp's
  __shared__ __align__(8) u64 barriers[2 * (given.states + Rings::tokens)];

  const Args& args = unguarded(called);
  // The next kernel of the stream may take its places; its own wait keeps it from our outputs.
  ptx::launch_dependents();
  if (args.in.tokens == 0) ptx::wait_for_previous();  // without tokens it is the first
  if (!stays_out<shape>(called, args.in)) {
    const u32 first = ptx::shared_address(barriers);
    const Rings rings{ptx::shared_address(slices), first, first + 8 * given.states,
                      first + 16 * given.states, first + 16 * given.states + 8 * Rings::tokens};
    if (threadIdx.x == 0) rings.init();
    __syncthreads();
    const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
    const Part part(args);
    if (warp < Rings::warps) {
      serve(args, part, rings, slices, stage, sums);
    } else if (warp == Rings::warps) {
      bring_states(args, part, rings);
    } else {
      bring_tokens(args, part, rings, stage, warp - Rings::warps - 1);
    }
  }
  if (blockIdx.x == gridDim.x - 1) ptx::wait_for_previous();
}
