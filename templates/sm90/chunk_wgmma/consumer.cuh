// A consumer warpgroup of a chain that writes outputs:
//   R = V - Kd S;   O = Qd S + Aq R;   S = diag(decay) S + Ak^T R
// It has up to four products in flight; only R and the update of S are on the chain from chunk to
// chunk, and little else stands there: while products run, other instructions take several times as
// long (tools/results/log/chunk_wgmma.md).
#pragma once

#include "base/slots.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/chunk_wgmma/checkpoint.cuh"
#include "sm90/chunk_wgmma/products.cuh"

namespace kda::chunk_wgmma {

// How a chain differs from that of a state's V columns to the last chunk, which is this.
struct WholeChain {
  // Whether a chunk's first steps stand at the end of the turn before (consume()): a faster turn,
  // but twice the code, and the first chunk meets the other.
  static constexpr bool begins_before = true;
  // Whether it is a state's share of another chain: v = 0, and what load_values loads are rows of o
  // to which it adds.
  static constexpr bool adds = false;
  // v^T of a chunk, from this lane's place in its rows.
  template <class Chain>
  KDA_DEVICE void load_values(u32 (&v)[Chain::chunk_tiles / 2][4], u32 own) const {
    load_values_transposed<Chain>(v, own);
  }
  // What o is multiplied by, of the run's scale.
  KDA_DEVICE constexpr float output_scale(float scale) const { return scale; }
  // Asked by all of each chunk but the last, with how many follow it, once its state is known and
  // before its slot is given back; false ends the chain there.
  template <class State>
  KDA_DEVICE constexpr bool goes_on(int, const State&) const {
    return true;
  }
};

// The state before the task's chunks becomes the one after them.  Returns how many it did not go.
template <class Chain, class Kind = WholeChain>
KDA_DEVICE int consume(const typename Chain::Ring& ring, const abi::chunk::RecurrenceArgs& args,
                       const Task& task, typename Chain::State& state, const Kind& kind = {}) {
  using Square = typename Chain::Square;
  using Scale = typename Chain::Scale;
  constexpr abi::DType type = Chain::type;
  constexpr int chunk = Chain::chunk;
  constexpr auto slot = Chain::slot;
  constexpr float writer_scale = Chain::writer_scale;
  constexpr bool early = Chain::stages > 1;            // a look at the next chunk
  constexpr bool fetch_early = early && Chain::roomy;  // and its decay and v
  constexpr bool begin_early = fetch_early && Kind::begins_before;
  if (task.chunks == 0) return 0;
  const int rows_at_end = last_rows<Chain>(task);

  auto& s = state.s[0];
  typename Chain::Accumulators r;
  typename Chain::Accumulators o;
  u32 s_operand[Chain::keys / 16][4];
  u32 r_operand[chunk / 16][4];
  u32 v[Chain::chunk_tiles / 2][4];
  float2 decay[Chain::keys / 8];
  CheckpointSlots<Chain> checkpoints(args, task);
  typename Chain::Cursor here;
  u32 own = own_rows<Chain>();
  tile::Lane lane;
  // Of these ptxas would find both anew in every chunk, which took H = 16 138 us for 134.
  if constexpr (Chain::halves) asm volatile("" : "+r"(own), "+r"(lane.t));
  // What registers want of a chunk, where there is room ahead of its turn.
  const auto fetch = [&](typename Chain::Cursor at) {
    load_decay(decay, ring.at(at) + slot.image.decay, lane);
    kind.template load_values<Chain>(v, ring.at(at) + slot.v + own);
  };
  u32 number = 0;                                       // of the last checkpoint
  int until = args.out.pool.checkpoint_tokens / chunk;  // chunks to the next one
  Scale s_scale;
  // What stands before a chunk's products.  Where a turn of the loop ends with it, ptxas leaves all
  // of it there; else it puts half of the decay between the first two products.
  const auto begin = [&] {
    if constexpr (!fetch_early) fetch(here);
    if constexpr (Scale::needed) s_scale.choose(largest(s));
    pack(s_operand, s, s_scale);
    if constexpr (Kind::adds) {
      static_assert(!Scale::needed, "by f16's scales o would have to be added later");
      take_values<Chain>(o, v);
      multiply(o, kind.unscaled);
#pragma unroll
      for (auto& x : r) x[0] = x[1] = x[2] = x[3] = 0.0F;
    } else if constexpr (!Scale::needed) {
      take_values<Chain>(r, v);
    }
    // S decays before the products that read the packed copy: ptxas waits for all in flight before
    // it lets registers change that another product once wrote.
    decay_state(s, decay);
  };
  ring.wait_full(here);
  if constexpr (fetch_early) fetch(here);
  if constexpr (begin_early) begin();
#pragma unroll 1
  for (int left = task.chunks; left > 0; --left) {
    const u32 data = ring.at(here);
    const ptx::WgmmaPlace factors(data);
    if constexpr (!begin_early) begin();
    hold(r);
    hold(o);
    ptx::wgmma_fence();
    read_state<Chain, Scale::needed ? 1 : -1>(r, s_operand, factors + slot.image.kd);
    ptx::wgmma_commit();

    read_state<Chain, 1, Kind::adds>(o, s_operand, factors + slot.image.qd);
    ptx::wgmma_commit();

    const typename Chain::Cursor done = here;
    here.next();
    const bool more = left > 1;
    ptx::wgmma_wait<1>();
    hold(r);
    const bool arrived = ring.is_full(here);  // the answer comes under what follows
    if constexpr (Scale::needed) subtract_from_values<Chain>(r, v, s_scale.down);
    Scale r_scale;
    if constexpr (Scale::needed) r_scale.choose(largest(r));
    pack(r_operand, r, r_scale);
    if constexpr (Scale::needed) {
      ptx::wgmma_wait<0>();
      hold(o);
      multiply(s, r_scale.up * writer_scale);
      multiply(o, s_scale.down * r_scale.up * writer_scale);
      hold(o);
    }

    hold(s);
    ptx::wgmma_fence();
    write_state<Chain>(s, r_operand, factors + slot.image.ak);
    if constexpr (Chain::writes_twice)
      write_state<Chain>(s, r_operand, factors + slot.image.ak_rest);
    ptx::wgmma_commit();
    const ptx::WgmmaTile aq(factors + slot.image.aq, Square::row_bytes, 0, 8 * Square::row_bytes);
#pragma unroll
    for (int c = 0; c < chunk / 16; ++c) {
      ptx::wgmma_m64k16<type, chunk, 0>::run(&o[0][0], r_operand[c], aq.at(c * 32), 1);
    }
    ptx::wgmma_commit();

    // Under these: what the next chunk begins with.
    // Where o will lie, in a register of its own: a store waits for loads whose address it takes.
    u32 o_rows = data + slot.v + own;
    asm volatile("" : "+r"(o_rows));
    if (early && more) {
      if (!arrived) ring.wait_full(here);
      if constexpr (fetch_early) fetch(here);
    }
    ptx::wgmma_wait<0>();
    hold(s);
    hold(o);
    leave_outputs<Chain>(o_rows, o, kind.output_scale(args.in.scale) * r_scale.down / writer_scale);
    if constexpr (Scale::needed) multiply(s, r_scale.down / writer_scale);
    const bool goes = !more || kind.goes_on(left - 1, state);
    ring.release(done);
    if (!goes) return left - 1;
    if constexpr (Chain::copies_checkpoints) {
      if (--until == 0 && (more || rows_at_end == chunk)) {
        CheckpointBuffers<Chain>(ring).leave(state, ++number);
        until = args.out.pool.checkpoint_tokens / chunk;
      }
    } else if constexpr (Chain::shape.checkpoints) {
      const i64 kept = checkpoints.next(left - 1);
      if (kept != no_slot) {
        const int warp = static_cast<int>(threadIdx.x) / 32;
        state.store_paired(checkpoints.at(kept), first_column<Chain>(task, warp));
      }
    }
    if constexpr (begin_early) {
      if (!more) return 0;
      begin();
    } else if (!early && more) {
      ring.wait_full(here);
    }
  }
  return 0;
}

}  // namespace kda::chunk_wgmma
