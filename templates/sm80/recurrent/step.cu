// Token by token, exact for every gate (spec 1.2, 1.3).  A block owns a slice of one sequence's and
// value head's columns of S in registers; columns never meet, so blocks never do.
//
// The state is asked for before anything else and converted last: for a few tokens its traffic is
// all that counts.  Tokens go through shared memory in two stages: while a stage is at work the
// next one's loads are in flight, and one barrier a stage suffices, since whoever fills a stage has
// passed the barrier that ends its last use.
#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

#include "abi/recurrent.h"
#include "base/types.cuh"
#include "base/varlen.cuh"
#include "sm80/recurrent/state.cuh"
#include "sm80/recurrent/token.cuh"

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::recurrent::Tuning tune = KDA_TUNING;
constexpr abi::recurrent::Geometry geometry = abi::recurrent::geometry_of(shape, tune);

using State = recurrent::State<shape, tune>;
using Tokens = recurrent::Tokens<shape, tune>;
using Stage = recurrent::Stage<shape, tune>;

// Every lane of a group holds its columns' outputs: lane i of it writes columns i, i + lanes, ...
KDA_DEVICE void write_output(storage<shape.qkv_type>* row, const State& state,
                             const float (&o)[State::columns]) {
#pragma unroll
  for (int first = 0; first < State::columns; first += State::lanes) {
    float value = 0.0F;
#pragma unroll
    for (int i = 0; i < smaller(State::lanes, State::columns - first); ++i) {
      if (i == state.part) value = o[first + i];
    }
    const int r = first + state.part;
    const int column = state.block_column + state.column(r);
    if (r < State::columns && column < shape.value_dim) {
      row[column] = element<shape.qkv_type>::from_float(value);
    }
  }
}

}  // namespace kda

extern "C" __global__ void __launch_bounds__(kda::tune.threads, kda::geometry.resident)
    kda_recurrent_step(const __grid_constant__ kda::abi::recurrent::StepArgs args) {
  using namespace kda;
  __shared__ Stage stages[2];

  const u32 heads = static_cast<u32>(args.in.value_heads);
  const int slice = static_cast<int>(blockIdx.x % geometry.slices);
  const u32 sequence_head = blockIdx.x / geometry.slices;
  const int head = static_cast<int>(sequence_head % heads);
  const int n = static_cast<int>(sequence_head / heads);
  const i64 state_at =
      static_cast<i64>(sequence_head) * (static_cast<i64>(shape.key_dim) * shape.value_dim);

  State state(slice);
  State::Raw initial;
  if constexpr (shape.initial_state) {
    using Storage = storage<shape.state_type>;
    state.fetch(initial, static_cast<const Storage*>(args.out.initial_state) + state_at);
  }

  const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(args.in, n);
  const i64 length = sequence.length();
  Tokens tokens(args.in, n, sequence.begin, head, state.block_column);
  // From lane 0, so that the compiler sees one value a warp.
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  Tokens::Raw next;
  if (warp < geometry.tokens && warp < length) tokens.fetch(next, warp);
  tokens.load_gate(head);

  if constexpr (shape.initial_state) {
    state.unpack(initial);
  } else {
    state.clear();
  }

  auto* o_row = static_cast<storage<shape.qkv_type>*>(const_cast<void*>(args.out.o.data)) +
                offset_of<shape.varlen>(args.out.o, n, sequence.begin, head);
  int buffer = 0;
  for (i64 first = 0; first < length; first += geometry.tokens) {
    Stage& stage = stages[buffer];
    buffer ^= 1;
    if (warp < geometry.tokens && first + warp < length) tokens.activate(stage, warp, next);
    __syncthreads();
    const i64 wanted = first + geometry.tokens + warp;
    if (warp < geometry.tokens && wanted < length) tokens.fetch(next, wanted);

    const int count =
        length - first < geometry.tokens ? static_cast<int>(length - first) : geometry.tokens;
#pragma unroll 1
    for (int t = 0; t < count; ++t) {
      float o[State::columns];
      state.step(o, stage, t);
      write_output(o_row, state, o);
      o_row += args.out.o.token;
    }
  }

  if constexpr (shape.final_state) {
    state.store(static_cast<storage<shape.state_type>*>(args.out.final_state) + state_at);
  }
}
