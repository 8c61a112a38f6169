// Strategy chunk, stage 2: one block a (sequence, value head, shard of V) walks the chunks in
// order:
//   R = V - Kd S;   O = Qd S + Aq R;   S = diag(decay) S + Ak^T R
// with S^T in registers (step/state.cuh).  Warps have V columns of their own; or several share
// theirs and have key channels of their own (Tuning::key_warps), so that a chain of few heads has
// more warps at work: then each has a part of Kd S and Qd S, which are added up before Ak's
// product.
#include "base/slots.cuh"
#include "sm80/chunk/key_parts.cuh"
#include "sm80/chunk/products.cuh"
#include "sm80/chunk/ring.cuh"

namespace kda {

// What a chunk does to the state, and its outputs; chunk after chunk.
class Walk {
 public:
  KDA_DEVICE Walk(char* memory, const abi::chunk::RecurrenceArgs& args, const Task& task)
      : ring_(memory, args, task),
        key_parts_(memory + tune.load_stages * slot.bytes),
        scale_(args.in.scale),
        to_{static_cast<storage<type>*>(const_cast<void*>(args.out.o.data)) +
                offset_of<shape.varlen>(args.out.o, task.n, task.sequence.begin, task.head),
            args.out.o.token, task.sequence.length(), task.value0 + warp_column(),
            is_paired<type>(args.out.o, values)} {}

  // Tells whether the chunk was whole.
  KDA_DEVICE bool advance(State& state) {
    const bool whole = to_.left >= chunk;
    if constexpr (key_warps == 1) {
      advance_alone(state);
    } else {
      advance_together(state);
    }
    to_.first += chunk * to_.token;
    to_.left -= chunk;
    return whole;
  }

  KDA_DEVICE bool has_more() const { return to_.left > 0; }

 private:
  using Scale = tile::Scale<type>;

  KDA_DEVICE void advance_alone(State& state) {
    Scale state_scale;
    if constexpr (Scale::needed) state_scale.choose(largest(state.s));
    Scale r_scale;

    char* from = ring_.next<0>();
    Accumulators r = {};
    read_state(r, state, Factor(from + kd_at), state_scale);
    subtract_from_values(r, Values(from + values_at), state_scale.down);
    if constexpr (Scale::needed) r_scale.choose(largest(r));

    from = ring_.next<1>();
    Accumulators o = {};
    read_state(o, state, Factor(from + qd_at), state_scale);
    if (Scale::needed) scale_by(o, state_scale.down * r_scale.up * writer_scale);
    const auto aq = Product::rows(Square(from + aq_at), 0, 0);
#pragma unroll
    for (int k = 0; k < chunk / 16; ++k) {
      typename Product::A a[tiles];
#pragma unroll
      for (int m = 0; m < tiles; ++m) a[m] = operand(r[m], k, r_scale);
#pragma unroll
      for (int c = 2 * k; c < chunk_tiles; c += 2) {  // Aq is lower
        typename Product::B b[2];
        Product::load_b2(b, aq, c * 8, k * 16);
#pragma unroll
        for (int m = 0; m < tiles; ++m) {
          Product::multiply(o[m][c], a[m], b[0]);
          Product::multiply(o[m][c + 1], a[m], b[1]);
        }
      }
    }
    if (to_.whole()) {
      write<true>(o, r_scale);
    } else {
      write<false>(o, r_scale);
    }

    update(state, r, ring_.next<2>(), r_scale);
    if constexpr (parts == 4) write_state(state, r, Writer(ring_.next<3>() + rest_at), r_scale);
    if (Scale::needed) scale_by(state.s, r_scale.down / writer_scale);
  }

  template <bool whole>
  KDA_DEVICE void write(const Accumulators& o, const Scale& r_scale) const {
#pragma unroll
    for (int c = 0; c < chunk_tiles; ++c) {
#pragma unroll
      for (int m = 0; m < tiles; ++m) to_.write<whole>(o[m][c], m, c, output_scale(r_scale));
    }
  }
  KDA_DEVICE float output_scale(const Scale& r_scale) const {
    return scale_ * r_scale.down / writer_scale;
  }

  static KDA_DEVICE void update(State& state, const Accumulators& r, char* from,
                                const Scale& r_scale) {
    decay_state(state, reinterpret_cast<const float*>(from + decay_at), r_scale.up * writer_scale);
    write_state(state, r, Writer(from + ak_at), r_scale);
  }

  KDA_DEVICE void advance_together(State& state) {
    Scale state_scale;
    if constexpr (Scale::needed) state_scale.choose(largest(state.s));
    Scale r_scale;

    char* const from = ring_.next<0>();
    Accumulators r = {};
    Accumulators o = {};
    read_state(r, o, state, Factor(from + kd_at), Factor(from + qd_at), state_scale);
    if (key_parts_.warp() == 0) {
      subtract_from_values(r, Values(from + values_at), state_scale.down);
    } else {
      scale_by(r, -state_scale.down);
    }
    if (Scale::needed) scale_by(o, state_scale.down);
    key_parts_.give(r, o);

    key_parts_.take_r(r);
    if constexpr (Scale::needed) r_scale.choose(largest(r));
    update(state, r, from, r_scale);
    if constexpr (parts == 4) write_state(state, r, Writer(from + rest_at), r_scale);
    if (Scale::needed) scale_by(state.s, r_scale.down / writer_scale);
    write_share(Square(from + aq_at), r, r_scale);
  }

  // The warp's share of the outputs; the first one has had V.
  KDA_DEVICE void write_share(const Square& square, const Accumulators& r, const Scale& r_scale) {
    const auto aq = Product::rows(square, 0, 0);
    const bool whole = to_.whole();
#pragma unroll
    for (int m = 0; m < tiles; ++m) {
#pragma unroll
      for (int c = 0; c < chunk_tiles; c += share_tiles) {
        const int number = (m * chunk_tiles + c) / share_tiles;
        if ((number + 1) % key_warps != key_parts_.warp()) continue;
        Share o;
#pragma unroll
        for (int i = 0; i < share_tiles; ++i) {
          key_parts_.take_o(o[i], m, c + i);
          if constexpr (Scale::needed) {
#pragma unroll
            for (int e = 0; e < 4; ++e) o[i][e] *= r_scale.up * writer_scale;
          }
        }
        read_writes(o, r, m, c, aq, r_scale);
#pragma unroll
        for (int i = 0; i < share_tiles; ++i) {
          if (whole) {
            to_.write<true>(o[i], m, c + i, output_scale(r_scale));
          } else {
            to_.write<false>(o[i], m, c + i, output_scale(r_scale));
          }
        }
      }
    }
  }

  Ring ring_;
  const KeyParts key_parts_;
  const float scale_;
  OutputRows to_;
};

extern "C" __global__ void __launch_bounds__(threads, 1)
    kda_chunk_recurrence(const __grid_constant__ abi::chunk::RecurrenceArgs args) {
  extern __shared__ __align__(1024) char memory[];

  const abi::Inputs& in = args.in;
  Task task;
  task.value0 = static_cast<int>(blockIdx.x % tune.shards) * columns;
  task.head = static_cast<int>(blockIdx.x / tune.shards % in.value_heads);
  task.n = static_cast<int>(blockIdx.x / tune.shards / in.value_heads);
  task.sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, task.n);
  task.slot = first_slot(task.sequence.begin, task.n, chunk);

  const Slots<shape> slots(args.out, task.n);
  if (shape.state_pool && slots.padding) {
    if (shape.zero_padding) {
      auto* outputs = static_cast<storage<type>*>(const_cast<void*>(args.out.o.data)) +
                      offset_of<shape.varlen>(args.out.o, task.n, task.sequence.begin, task.head);
      write_zeros<type>(outputs + task.value0, args.out.o.token, task.sequence.length(),
                        smaller(columns, values - task.value0), threads);
    }
    return;
  }

  Walk walk(memory, args, task);
  State state;
  const int value0 = task.value0 + warp_column();
  const u32 key0 = warp_key();
  if (slots.has_start()) {
    state.load_paired(slots.start(args.out, in, task.head), value0, key0);
  } else {
    state.clear();
  }
  Checkpoints<shape> checkpoints(args.out.pool, task.n, chunk);

  while (walk.has_more()) {
    const bool whole = walk.advance(state);
    if constexpr (shape.checkpoints) {
      const i64 kept = whole ? checkpoints.step() : no_slot;
      if (kept != no_slot)
        state.store_paired(Slots<shape>::at(args.out, in, kept, task.head), value0, key0);
    }
  }

  ptx::cp_async_wait<0>();
  if constexpr (shape.final_state) {
    state.store_paired(Slots<shape>::at(args.out, in, slots.own, task.head), value0, key0);
  }
}

}  // namespace kda
