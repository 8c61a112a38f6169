// The warpgroup that walks: the state of 64 V columns through all chunks of the pair's stream.
//   R = V - Kd S;   O = Qd S + Aq R;   S = diag(decay) S + Ak^T R
// As sm90/chunk_wgmma/consumer.cuh, which is faster where nothing else has the multiprocessor; here
// making factors takes longer.
#pragma once

#include "base/slots.cuh"
#include "ptx/bulk.cuh"
#include "sm90/chunk_wgmma/products.cuh"
#include "sm90/fused/cut.cuh"
#include "sm90/fused/keep.cuh"
#include "sm90/fused/pair.cuh"
#include "sm90/fused/rows.cuh"
#include "sm90/fused/stream.cuh"
#include "sm90/fused/task.cuh"
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

  using Factor = kda::Factor;
  using Square = kda::Square;
  using Values = tile::Shared<type, chunk, abi::fused::columns>;  // rows of v, and of o
  using Accumulators = float[chunk_tiles][4];                     // [V, C]
};

class Walk {
 public:
  KDA_DEVICE Walk(char* shared, const Pair& pair, const abi::fused::Args& args)
      : pair_(pair),
        args_(args),
        tasks_(reinterpret_cast<Task*>(shared + Pair::tasks)),
        thread_(static_cast<int>(threadIdx.x) % 128),
        rows_(pair, args) {}

  // The pieces of a line, each from its state to the one after it.  The next is found while the
  // state of one is on its way.
  KDA_DEVICE void line(const Line& line) {
#pragma unroll 1
    for (int number = 0;; ++number) {
      const bool has_one = number > 0;
      if (has_one) take_up(task(number - 1));
      note(line, number);
      if (has_one) {
        walk(number - 1);
        finish(task(number - 1));
      }
      // Known to be the same for a whole warp, or its products' addresses would not be.
      if (!__any_sync(0xffffffffU, task(number).exists)) break;
    }
    if constexpr (layout.kept != 0) ptx::bulk_store_wait_read();
  }

 private:
  // The warp's notes of a piece; those of the next one are kept beside them.
  KDA_DEVICE Task& task(int number) const {
    return tasks_[number % 2 * Pair::warps + thread_ / 32];
  }

  KDA_DEVICE void note(const Line& line, int number) const {
    const Task next = Task::of(args_.in, args_.out, line, number);
    if (number > 0) next.prefetch_start(thread_ / 32, thread_ % 32);
    __syncwarp();
    if (thread_ % 32 == 0) task(number) = next;
    __syncwarp();
  }

  // The thread is kept and not found anew in every chunk; but what follows from it is from here on.
  KDA_DEVICE void forget() { asm volatile("" : "+r"(thread_)); }

  // The state that a piece begins with, and its first rows of v.
  KDA_DEVICE void take_up(const Task& task) {
    forget();
    if (task.chunks > 0) rows_.begin(task, thread_);
    if (!task.begins) {
      Cut{args_.cuts, Line::pair(), thread_}.take(state_);
    } else if (task.start != nullptr) {
      state_.load_paired(task.start, task.value0(thread_ / 32));
    } else {
      state_.clear();
    }
    keep_.begin(args_.out.pool, task.n, task.first);
    forget();
  }

  // Its chunks.
  KDA_DEVICE void walk(int number) {
    forget();
    bool had_one = false;
    while (rows_.left() > 0) {
#pragma unroll 1
      do {
        turn(had_one);
        had_one = true;
        if (maker_ == 1) at_.next();
        maker_ ^= 1;
        if (shape.checkpoints && rows_.was_whole() && keep_.is_due()) keep(task(number));
      } while (rows_.left() > 0 && !rows_.asks_for_hands());
      if (rows_.asks_for_hands()) rows_.by_hand(thread_);
    }
    if (had_one) rows_.end(thread_);
  }

  // The state that it ends with.
  KDA_DEVICE void finish(const Task& task) {
    forget();
    if (!task.ends) {
      Cut{args_.cuts, Line::pair() + 1, thread_}.give(state_);
    } else if (shape.final_state && task.end != nullptr) {
      state_.store_paired(task.end, task.value0(thread_ / 32));
    }
  }

  // To the checkpoint that is due, if it has a slot.
  KDA_DEVICE void keep(const Task& task) {
    forget();
    const i64 slot = keep_.slot(args_.out.pool);
    if (slot != no_slot && !rows_.padding()) {
      if (layout.kept != 0 && args_.checkpoints.present) {
        send(slot, task);
      } else {
        state_.store_paired(Slots<shape>::at(args_.out, args_.in, slot, task.head),
                            task.value0(thread_ / 32));
      }
    }
    keep_.next(args_.out.pool, task.n);  // last, that its load finds a register where it stays
  }

  // The same by the copy engine, each warp for itself.
  KDA_DEVICE void send(i64 slot, const Task& task) {
    const StateBox<shape> box{pair_.kept(static_cast<u32>(thread_) / 32)};
    const bool sends = thread_ % 32 == sender;
    if (sends) ptx::bulk_store_wait_read();  // of the one before
    __syncwarp();
    box.put(state_.s[0], static_cast<u32>(thread_) % 32);
    ptx::fence_async_proxy();
    __syncwarp();
    if (sends) {
      box.send(args_.checkpoints, slot, task.head * shape.value_dim + task.value0(thread_ / 32));
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
    wg::load_values_transposed<Chain>(v, rows_.values() + own_rows());
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
    return row * Chain::Values::row_bytes + (unit ^ row % 8) * 16;
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
  Task* const tasks_;  // of all warps
  int thread_;
  Turn at_;        // of the next chunk
  u32 maker_ = 0;  // its block
  Rows rows_;
  Keep keep_;
  State state_;
};

}  // namespace kda::fused
