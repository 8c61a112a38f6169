// A consumer warpgroup of a chain that writes outputs:
//   R = V - Kd S;   O = Qd S + Aq R;   S = diag(decay) S + Ak^T R
// It has up to four products in flight; only R and the update of S are on the chain from chunk to
// chunk, and little else stands there: while products run, other instructions take several times as
// long (tools/results/log/chunk_wgmma.md).
#pragma once

#include "base/slots.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/chunk_wgmma/checkpoint.cuh"
#include "sm90/chunk_wgmma/f16_units.cuh"
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
  // Whether goes_on() reads the state of a chunk that so many follow.
  KDA_DEVICE constexpr bool reads_state(int) const { return false; }
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
  F16Units units;                                       // where Scale::needed
  // What stands before a chunk's products.  Where a turn of the loop ends with it, ptxas leaves all
  // of it there; else it puts half of the decay between the first two products.
  const auto begin = [&] {
    if constexpr (!fetch_early) fetch(here);
    if constexpr (Scale::needed) {
      units.pack_state(s_operand, s);
    } else {
      pack(s_operand, s, Scale());
    }
    if constexpr (Kind::adds) {
      static_assert(!Scale::needed, "o would have to come in f16's units");
      take_values<Chain>(o, v);
      multiply(o, kind.unscaled);
#pragma unroll
      for (auto& x : r) x[0] = x[1] = x[2] = x[3] = 0.0F;
    } else {
      take_values<Chain>(r, v);
      if constexpr (Scale::needed) multiply(r, units.up);
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
    read_state<Chain, -1>(r, s_operand, factors + slot.image.kd);
    ptx::wgmma_commit();

    read_state<Chain, 1, Kind::adds>(o, s_operand, factors + slot.image.qd);
    ptx::wgmma_commit();

    const typename Chain::Cursor done = here;
    here.next();
    const bool more = left > 1;
    ptx::wgmma_wait<1>();
    hold(r);
    const bool arrived = ring.is_full(here);  // the answer comes under what follows
    float back = 1.0F;                        // into the state's units
    if constexpr (!Scale::needed) {
      pack(r_operand, r, Scale());
    } else if (!F16Units::pack_writes(r_operand, r, writer_scale)) {
      // Loud after a silent state, or silent after a loud one: in units of their own.
      const Scale own = F16Units::own_units(r);
      pack(r_operand, r, own);
      ptx::wgmma_wait<0>();
      hold(o);
      multiply(s, own.up * writer_scale);
      multiply(o, own.up * writer_scale);
      hold(o);
      back = own.down / writer_scale;
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
    leave_outputs<Chain>(o_rows, o, kind.output_scale(args.in.scale) * back * units.down());
    if constexpr (Scale::needed) {
      if (back != 1.0F) multiply(s, back);
      if (!more || kind.reads_state(left - 1)) multiply(s, units.down());
    }
    const bool goes = !more || kind.goes_on(left - 1, state);
    ring.release(done);
    if (!goes) return left - 1;
    if constexpr (Scale::needed) {
      if (more && kind.reads_state(left - 1)) multiply(s, units.up);
    }
    if constexpr (Chain::copies_checkpoints) {
      if (--until == 0 && (more || rows_at_end == chunk)) {
        if (Scale::needed && more) multiply(s, units.down());
        CheckpointBuffers<Chain>(ring).leave(state, ++number);
        if (Scale::needed && more) multiply(s, units.up);
        until = args.out.pool.checkpoint_tokens / chunk;
      }
    } else if constexpr (Chain::shape.checkpoints) {
      const i64 kept = checkpoints.next(left - 1);
      if (kept != no_slot) {
        const int warp = static_cast<int>(threadIdx.x) / 32;
        if (Scale::needed && more) multiply(s, units.down());
        state.store_paired(checkpoints.at(kept), first_column<Chain>(task, warp));
        if (Scale::needed && more) multiply(s, units.up);
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
