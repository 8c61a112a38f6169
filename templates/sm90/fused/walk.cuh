// The warpgroup that walks: the state of 64 V columns through all chunks of the pair's stream.
//   R = V - Kd S;   O = Qd S + Aq R;   S = diag(decay) S + Ak^T R
// As sm90/chunk_wgmma/consumer.cuh, which is faster where nothing else has the multiprocessor; here
// making factors takes longer.
#pragma once

#include "base/slots.cuh"
#include "ptx/bulk.cuh"
#include "ptx/flag.cuh"
#include "sm90/chunk_wgmma/products.cuh"
#include "sm90/fused/cut.cuh"
#include "sm90/fused/keep.cuh"
#include "sm90/fused/pair.cuh"
#include "sm90/fused/rows.cuh"
#include "sm90/fused/stream.cuh"
#include "sm90/state_box.cuh"
#include "step/state.cuh"
#include "tile/scale.cuh"
#include "tile/shared.cuh"

namespace kda::fused {

// What products.cuh asks of a chain.
struct Chain {
  static constexpr abi::DType type = kda::type;
  static constexpr int chunk = kda::chunk;
  static constexpr int chunk_tiles = chunk / 8;
  static constexpr int keys = kda::keys;
  static constexpr int value_row = Pair::value_row;

  using Factor = kda::Factor;
  using Square = kda::Square;
  using Accumulators = float[chunk_tiles][4];  // [V, C]
};

class Walk {
 public:
  KDA_DEVICE Walk(const Pair& pair, const abi::fused::Args& args)
      : pair_(pair), args_(args), thread_(static_cast<int>(threadIdx.x) % 128), rows_(pair, args) {}

  // The pieces of a line, each from its state to the one after it.
  KDA_DEVICE void line(const Line& line) {
    const int parts = Part::count(args_.in);
#pragma unroll 1
    for (int number = 0;; ++number) {
      {
        const Piece next = line.piece(args_.in, number + 1);
        if (next.part < parts && next.begins) prefetch_state(Part(args_.in, next.part));
      }
      const Piece piece = line.piece(args_.in, number);
      if (piece.part >= parts) break;
      this->piece(piece);
    }
    if constexpr (layout.kept != 0) ptx::bulk_store_wait_read();
  }

 private:
  // The warp's first V column of a part.
  KDA_DEVICE int value0(int shard) const {
    return (shard * abi::fused::blocks + static_cast<int>(Pair::rank())) * abi::fused::columns +
           thread_ / 32 * 16;
  }

  // Where a part starts from, to the L2 while the one before is walked; where V columns lie in a
  // row.
  KDA_DEVICE void prefetch_state(const Part& part) const {
    const Slots<shape> slots(args_.out, part.n);
    if (!shape.state_value_first || slots.padding || !slots.has_start()) return;
    constexpr int columns = 16;  // a warp's, each K elements
    constexpr int bytes = columns * shape.key_dim * sizeof(storage<shape.state_type>);
    const auto* from = reinterpret_cast<const char*>(slots.start(args_.out, args_.in, part.head) +
                                                     value0(part.shard) * shape.key_dim);
#pragma unroll
    for (int at = 0; at < bytes; at += 32 * 128) {
      const int own = at + thread_ % 32 * 128;
      if (own < bytes) ptx::prefetch(from + own);
    }
  }

  // The thread is kept and not found anew in every chunk; but what follows from it is from here on.
  KDA_DEVICE void forget() { asm volatile("" : "+r"(thread_)); }

  KDA_DEVICE void piece(const Piece& piece) {
    forget();
    const abi::Inputs& in = args_.in;
    const Part part(in, piece.part);
    const Slots<shape> slots(args_.out, part.n);
    const bool padding = shape.state_pool && slots.padding;
    if (piece.chunks > 0) rows_.begin(part, piece, thread_, padding);
    if (!piece.begins) {
      Cut{args_.cuts, Line::pair(), thread_}.take(state_);
    } else if (!padding && slots.has_start()) {
      state_.load_paired(slots.start(args_.out, in, part.head), value0(part.shard));
    } else {
      state_.clear();
    }
    forget();
    // All that is held over the chunks: the part, in two words.
    const int own = part.head * shards + part.shard;
    const int n = piece.ends ? part.n : ~part.n;  // below 0: it goes on in the next pair
    keep_.begin(args_.out.pool, part.n, piece.first);
    bool had_one = false;
    while (rows_.left() > 0) {
#pragma unroll 1
      do {
        turn(had_one);
        had_one = true;
        if (maker_ == 1) at_.next();
        maker_ ^= 1;
        if (shape.checkpoints && rows_.was_whole() && keep_.is_due()) {
          keep(n < 0 ? ~n : n, own);
        }
      } while (rows_.left() > 0 && !rows_.asks_for_hands());
      if (rows_.asks_for_hands()) rows_.by_hand(thread_);
    }
    if (had_one) rows_.end(thread_);
    forget();
    if (n < 0) {
      Cut{args_.cuts, Line::pair() + 1, thread_}.give(state_);
    } else if constexpr (shape.final_state) {
      const Slots<shape> last(args_.out, n);
      if (shape.state_pool && last.padding) return;
      leave(last.own, own);
    }
  }

  // The state to a slot, as that of a head and shard.
  KDA_DEVICE void leave(i64 slot, int own) {
    auto* to = Slots<shape>::at(args_.out, args_.in, slot, own / shards);
    state_.store_paired(to, value0(own % shards));
  }

  // To the checkpoint that is due, if it has a slot.
  KDA_DEVICE void keep(int n, int own) {
    forget();
    const i64 slot = keep_.slot(args_.out.pool);
    if (slot != no_slot && !rows_.padding()) {
      if (layout.kept != 0 && args_.checkpoints.present) {
        send(slot, own);
      } else {
        leave(slot, own);
      }
    }
    keep_.next(args_.out.pool, n);  // last, that its load finds a register where it stays
  }

  // As leave(), by the copy engine, each warp for itself.
  KDA_DEVICE void send(i64 slot, int own) {
    const StateBox<shape> box{pair_.kept(static_cast<u32>(thread_) / 32)};
    const bool sends = thread_ % 32 == sender;
    if (sends) ptx::bulk_store_wait_read();  // of the one before
    __syncwarp();
    box.put(state_.s[0], static_cast<u32>(thread_) % 32);
    ptx::fence_async_proxy();
    __syncwarp();
    if (sends) {
      box.send(args_.checkpoints, slot, own / shards * shape.value_dim + value0(own % shards));
      ptx::bulk_store_commit();
    }
  }
  static constexpr int sender = 1;  // of a warp; Rows has its first ones

  KDA_DEVICE void turn(bool had_one) {
    namespace wg = chunk_wgmma;
    auto& s = state_.s[0];
    Chain::Accumulators r;
    Chain::Accumulators o;
    u32 s_operand[keys / 16][4];
    u32 r_operand[chunk / 16][4];
    u32 v[Chain::chunk_tiles / 2][4];
    float2 decay[keys / 8];

    const bool here = maker_ == pair_.rank();
    const bool is_made = here ? ptx::mbarrier_test(pair_.made(at_.group), at_.round)
                              : ptx::mbarrier_test(pair_.arrived(at_.slot), at_.slot_round);
    const bool is_there = rows_.is_there();
    wg::pack(s_operand, s, tile::Scale<type>());
    rows_.let_go(thread_, had_one);
    if (!is_made) {
      if (here) {
        ptx::mbarrier_wait(pair_.made(at_.group), at_.round);
      } else {
        ptx::mbarrier_wait(pair_.arrived(at_.slot), at_.slot_round);
      }
    }
    const u32 data = here ? pair_.image(at_.group) : pair_.slot(at_.slot);
    wg::load_decay(decay, data + image.decay, tile::Lane(static_cast<u32>(thread_)));
    wg::decay_state(s, decay);
    if (!is_there) rows_.wait();
    wg::load_values_transposed<Chain>(v, pair_.v() + own_rows());
    wg::take_values<Chain>(r, v);
    rows_.have_read(thread_);
    wg::hold(r);
    wg::hold(o);
    ptx::wgmma_fence();
    wg::read_state<Chain, -1>(r, s_operand, data + image.kd);
    ptx::wgmma_commit();
    wg::read_state<Chain>(o, s_operand, data + image.qd);
    ptx::wgmma_commit();
    rows_.pass(thread_, had_one);  // while R is on its way
    ptx::wgmma_wait<1>();
    wg::hold(r);
    wg::pack(r_operand, r, tile::Scale<type>());
    wg::hold(s);
    ptx::wgmma_fence();
    wg::write_state<Chain>(s, r_operand, data + image.ak);
    ptx::wgmma_commit();
    const ptx::WgmmaTile aq(data + image.aq, Square::row_bytes, 0, 8 * Square::row_bytes);
#pragma unroll
    for (int i = 0; i < chunk / 16; ++i) {
      ptx::wgmma_m64k16<type, chunk, 0>::run(&o[0][0], r_operand[i], aq.at(i * 32), 1);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    wg::hold(s);
    wg::hold(o);
    release(here);
    rows_.wait_free();
    wg::leave_outputs<Chain>(pair_.o() + own_rows(), o, tune.slabs != 0 ? 1.0F : args_.in.scale);
    rows_.next(thread_);
  }

  // This lane's place among a chunk's rows, of v read and o written transposed.
  KDA_DEVICE u32 own_rows() const {
    const int row = thread_ % 8 + thread_ % 32 / 16 * 8;
    const int unit = thread_ / 32 * 2 + thread_ / 8 % 2;
    return row * Chain::value_row + (unit ^ row % 8) * 16;
  }

  // Done with a chunk; to the other block one lane says so for its warp.
  KDA_DEVICE void release(bool here) const {
    if (here) {
      ptx::mbarrier_arrive(pair_.taken(at_.group));
    } else if (thread_ % 32 == 0) {
      ptx::mbarrier_arrive_remote(ptx::map_to(pair_.taken(at_.group), Pair::rank() ^ 1));
    }
  }

  const Pair& pair_;
  const abi::fused::Args& args_;
  int thread_;
  Turn at_;        // of the next chunk
  u32 maker_ = 0;  // its block
  Rows rows_;
  Keep keep_;
  State state_;
};

}  // namespace kda::fused
