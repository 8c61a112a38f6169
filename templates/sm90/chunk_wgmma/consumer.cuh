// A consumer warpgroup of a chain that writes outputs:
//   R = V - Kd S;   O = Qd S + Aq R;   S = diag(decay) S + Ak^T R
// It has up to four products in flight; only R and the update of S are on the chain from chunk to
// chunk.
#pragma once

#include "base/tensor.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/chunk_wgmma/products.cuh"

namespace kda::chunk_wgmma {

// o[C, V] = scale * acc^T, rows and columns that exist.  whole: all do, and pairs are aligned.
template <class Chain, bool whole>
KDA_DEVICE void write_outputs(const typename Chain::Accumulators& acc, u16* o, i64 token, i64 left,
                              int value0, float scale, bool paired) {
  const tile::Lane lane;
#pragma unroll
  for (int c = 0; c < Chain::chunk_tiles; ++c) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 pair = ptx::movmatrix_trans(
          element<Chain::type>::pack(scale * acc[c][2 * half], scale * acc[c][2 * half + 1]));
      const int value = value0 + half * 8 + 2 * lane.t;
      const int row = c * 8 + lane.g;
      u16* to = o + row * token + value;
      if (whole) {
        *reinterpret_cast<u32*>(to) = pair;
      } else if (row < left) {
        if (paired) {
          if (value < Chain::values) *reinterpret_cast<u32*>(to) = pair;
        } else {
          if (value < Chain::values) to[0] = static_cast<u16>(pair);
          if (value + 1 < Chain::values) to[1] = static_cast<u16>(pair >> 16);
        }
      }
    }
  }
}

// The state before the task's chunks becomes the one after them.
template <class Chain>
KDA_DEVICE void consume(const typename Chain::Ring& ring, const abi::chunk::RecurrenceArgs& args,
                        const Task& task, typename Chain::State& state) {
  using Factor = typename Chain::Factor;
  using Square = typename Chain::Square;
  using Scale = typename Chain::Scale;
  constexpr abi::DType type = Chain::type;
  constexpr int chunk = Chain::chunk;
  constexpr int parts = Chain::parts;
  constexpr float writer_scale = Chain::writer_scale;
  const int value0 = task.value0 + static_cast<int>(threadIdx.x) / 32 * 16;
  const bool paired = is_paired<type>(args.out.o, Chain::values);
  u16* outputs = static_cast<u16*>(const_cast<void*>(args.out.o.data)) +
                 offset_of<Chain::shape.varlen>(args.out.o, task.n, task.sequence.begin, task.head);

  auto& s = state.s[0];
  typename Chain::Accumulators r;
  typename Chain::Accumulators o;
  u32 s_operand[Chain::keys / 16][4];
  u32 r_operand[chunk / 16][4];
#pragma unroll 1
  for (int at = 0; at < task.chunks; ++at) {
    const int step = parts * at;
    Scale s_scale;
    if constexpr (Scale::needed) s_scale.choose(largest(s));
    pack(s_operand, s, s_scale);

    // S decays here, not under the products, which read the packed copy: ptxas waits for every
    // product in flight before it lets registers change that another product once wrote.
    ring.wait_full(step + 2);
    const u32 ak = ring.slot(step + 2);
    decay_state(s, ak + Factor::bytes);

    ring.wait_full(step);
    ring.wait_full(step + 1);
    if constexpr (parts == 4) ring.wait_full(step + 3);
    hold(r);
    hold(o);
    ptx::wgmma_fence();
    read_state<Chain>(r, s_operand, ring.slot(step));
    ptx::wgmma_commit();
    read_state<Chain>(o, s_operand, ring.slot(step + 1));
    ptx::wgmma_commit();

    ptx::wgmma_wait<1>();
    hold(r);
    subtract_from_values<Chain>(r, ring.slot(step) + Factor::bytes, s_scale.down);
    Scale r_scale;
    if constexpr (Scale::needed) r_scale.choose(largest(r));
    pack(r_operand, r, r_scale);
    ring.release(step);
    if constexpr (Scale::needed) {
      ptx::wgmma_wait<0>();
      hold(o);
      multiply(s, r_scale.up * writer_scale);
      multiply(o, s_scale.down * r_scale.up * writer_scale);
      hold(o);
    }

    hold(s);
    ptx::wgmma_fence();
    write_state<Chain>(s, r_operand, ak);
    if constexpr (parts == 4) write_state<Chain>(s, r_operand, ring.slot(step + 3));
    ptx::wgmma_commit();
    const ptx::WgmmaTile aq(ring.slot(step + 1) + Factor::bytes, Square::row_bytes, 0,
                            8 * Square::row_bytes);
#pragma unroll
    for (int c = 0; c < chunk / 16; ++c) {
      ptx::wgmma_m64k16<type, chunk, 0>::run(&o[0][0], r_operand[c], aq.at(c * 32), 1);
    }
    ptx::wgmma_commit();

    ptx::wgmma_wait<1>();
    hold(s);
    ring.release(step + 2);
    if constexpr (parts == 4) ring.release(step + 3);
    if constexpr (Scale::needed) multiply(s, r_scale.down / writer_scale);
    ptx::wgmma_wait<0>();
    hold(o);
    ring.release(step + 1);

    const i64 first = task.first + static_cast<i64>(at) * chunk;
    const i64 left = task.sequence.length() - first;
    u16* to = outputs + first * args.out.o.token;
    const float scale = args.in.scale * r_scale.down / writer_scale;
    if (left >= chunk && paired && task.value0 + Chain::columns <= Chain::values) {
      write_outputs<Chain, true>(o, to, args.out.o.token, left, value0, scale, paired);
    } else {
      write_outputs<Chain, false>(o, to, args.out.o.token, left, value0, scale, paired);
    }
  }
}

}  // namespace kda::chunk_wgmma
