// The warpgroup that walks: the state of 64 V columns through all chunks of the pair's stream.
//   R = V - Kd S;   O = Qd S + Aq R;   S = diag(decay) S + Ak^T R
// As sm90/chunk_wgmma/consumer.cuh, which is faster where nothing else has the multiprocessor; here
// making factors takes longer.
#pragma once

#include "base/compiler.cuh"
#include "base/slots.cuh"
#include "ptx/bulk.cuh"
#include "sm90/chunk_wgmma/products.cuh"
#include "sm90/fused/cut.cuh"
#include "sm90/fused/forget.cuh"
#include "sm90/fused/keep.cuh"
#include "sm90/fused/pair.cuh"
#include "sm90/fused/rows.cuh"
#include "sm90/fused/stream.cuh"
#include "sm90/fused/task.cuh"
#include "sm90/segments/looks.cuh"
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
  // doubts: words in which pairs say that a segment may not begin from nothing; or null.
  KDA_DEVICE Walk(char* shared, const Pair& pair, const abi::fused::Args& args, u32* doubts)
      : pair_(pair),
        args_(args),
        doubts_(doubts),
        tasks_(reinterpret_cast<Task*>(shared + Pair::tasks)),
        thread_(static_cast<int>(threadIdx.x) % 128),
        at_(pair.step(0)),
        rows_(pair, args) {
    find_next();
  }

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
  KDA_DEVICE Task& task(int number) const { return tasks_[Task::place(number, thread_ / 32)]; }

  KDA_DEVICE void note(const Line& line, int number) const {
    int before = 0;
    if constexpr (leaves_short) before = task(number + 1).n;  // noted where the next one will be
    const Task next = Task::of(args_.in, args_.out, line, number, before);
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
    is_ready_ = false;
    if (!task.begins) {
      Cut{args_.cuts, Line::pair(), thread_}.take(state_);
    } else if (task.start != nullptr) {
      state_.load_paired(task.start, task.value0(thread_ / 32));
    } else {
      state_.clear();
    }
    if constexpr (carried) {
      if (task.first > 0) decide_kept(task);
    } else if constexpr (segments > 1) {
      if (task.padding) weigh();
    }
    keep_.begin(args_.out.pool, task.n, task.first);
    forget();
  }

  // How much the first chunks of the line, a lead or a segment's own, leave of what came before
  // them: each warp notes its share.
  KDA_DEVICE void weigh() const {
    Step step = next_;
    u32 at = at_;
#pragma unroll 1
    for (int i = 0; i < weighed; ++i) {
      ptx::mbarrier_wait(step.ready, step.state % 2);
      if constexpr (by_teams) wait_for_writers(step);
      const auto lane = static_cast<u32>(thread_) % 32;
      const float share = share_of_transition(step.data, static_cast<u32>(thread_) / 32, lane);
      if (lane == 0) shares()[i * 4 + thread_ / 32] = share;
      step = step_at(at);
      at += abi::fused::step_bytes;
    }
  }
  static constexpr int weighed = abi::by_gates::lead_chunks;
  static_assert(weighed < steps, "steps of a lead do not wrap");
  // Whether so many leave nothing, when all have noted theirs.
  KDA_DEVICE bool forget_all_before() const {
    float left = 1.0F;
#pragma unroll
    for (int i = 0; i < weighed; ++i) {
      const float* share = shares() + i * 4;
      left *= share[0] + share[1] + share[2] + share[3];
    }
    return left <= abi::by_gates::forgotten;
  }
  // Behind the tasks.
  KDA_DEVICE float* shares() const { return reinterpret_cast<float*>(tasks_ + 2 * Pair::warps); }
  static_assert(segments == 1 || 2 * Pair::warps * sizeof(Task) + weighed * 4 * sizeof(float) <=
                                     abi::fused::tasks_bytes(shape));

  // Of how many of a later segment's chunks factors are kept: where its first leave nothing of what
  // came before them, of few (make_by_team.cuh).
  KDA_DEVICE void decide_kept(const Task& task) const {
    if (task.chunks < weighed) return;
    weigh();
    Rows::meet();
    if (thread_ == 0 && forget_all_before() && kept_chunks() > abi::by_gates::kept_where_forgotten)
      ptx::st_shared_u32(pair_.decision(), abi::by_gates::kept_where_forgotten);
    Rows::meet();
  }
  KDA_DEVICE int kept_chunks() const {
    return static_cast<int>(ptx::ld_shared_u32(pair_.decision()));
  }

  KDA_DEVICE void doubt() const { doubts_[Line::pair() % abi::guard_words] = abi::found_later; }

  // Its chunks.
  KDA_DEVICE void walk(int number) {
    forget();
    if (rows_.left() == 0) return;
    if (rows_.brings_more()) rows_.blank(thread_);
    do {
      if constexpr (carried) {
        note_length(task(number));
        rows_.stop_at(left_at_look(task(number)));
      }
      Begun chunk;
      int has_begun = 0;
      if constexpr (!one_text) {
        begin(chunk);
        has_begun = 1;
      }
      // A turn of the loop ends with what the next chunk begins with: ptxas leaves all of it there,
      // where else it puts half of the decay between the first two products.
#pragma unroll 1
      for (;;) {
        if (has_begun != 0) {
          advance(chunk);
          if (shape.checkpoints && rows_.was_whole() && keep_.is_due()) keep(task(number));
          if (rows_.stops()) break;
        }
        begin(chunk);
        if constexpr (one_text) has_begun = args_.in.sequences;  // never 0, which ptxas cannot know
      }
      if (rows_.asks_for_hands()) rows_.by_hand(thread_);
    } while (rows_.left() > 0);
    rows_.end();
  }

  // Whether all chunks share the text of begin().  The ptxas of CUDA 12.8 and before has every
  // product wait for the one before it then (C7513): an H200 took h64 504 us for 287.
#if KDA_CUDA_SINCE(12, 9)
  static constexpr bool one_text = true;
#else
  static constexpr bool one_text = false;
#endif

  // How many chunks are left at the next look at what is carried: there the loop ends, as a
  // question in each of its turns takes 0.16 us.
  KDA_DEVICE int left_at_look(const Task& task) const {
    const int next = abi::segments::next_carry_look(task.chunks - rows_.left());
    return next < kept_chunks() ? larger(task.chunks - next, 0) : 0;
  }
  // How long the state is there.
  KDA_DEVICE void note_length(const Task& task) const {
    const int gone = task.chunks - rows_.left();
    if (gone == 0 || !abi::segments::is_carry_look(gone)) return;
    const int looks = abi::segments::carry_looks(Line::carried_chunks(args_.in));
    const i64 at = static_cast<i64>(task.tile) * looks + abi::segments::carry_look_at(gone);
    kda::note(state_.s[0], args_.kept.lengths + at * abi::segments::noted_floats(shape), thread_);
  }

  // The state after a segment, for the stage that carries it on.
  KDA_DEVICE void leave(const Task& task) const {
    constexpr int bytes = abi::fused::state_bytes(shape);
    auto* to =
        reinterpret_cast<float4*>(args_.kept.states + static_cast<i64>(task.tile) * (bytes / 4)) +
        thread_;
#pragma unroll
    for (int k = 0; k < State::key_tiles; ++k) {
      const float(&x)[4] = state_.s[0][k];
      to[k * 128] = make_float4(x[0], x[1], x[2], x[3]);
    }
    if (thread_ == 0) {
      const bool little = kept_chunks() < args_.kept.chunks;
      args_.kept.ends[task.tile] =
          little ? abi::segments::unknown_little_kept : abi::segments::unknown;
    }
  }

  // The state that it ends with.
  KDA_DEVICE void finish(const Task& task) {
    forget();
    if constexpr (carried) {
      if (!task.ends) {
        leave(task);
        return;
      }
    } else if constexpr (segments > 1) {
      if (task.padding && !forget_all_before()) doubt();
      // 0 times what is not finite is NaN, which all that follows has.
      if (!task.ends && !is_finite(state_)) doubt();
    }
    if (!task.ends) {
      if constexpr (segments == 1) Cut{args_.cuts, Line::pair() + 1, thread_}.give(state_);
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
  static constexpr int sender = 1;  // of a warp; Rows has elected ones, the first

  // What a chunk begins with: where its factors are, S as it was before it, packed, and R = V.
  struct Begun {
    u32 s_operand[keys / 16][4];
    u32 v[Chain::chunk_tiles / 2][4];
  };

  KDA_DEVICE void begin(Begun& chunk) {
    namespace wg = chunk_wgmma;
    auto& s = state_.s[0];
    float2 decay[keys / 8];
    if (!is_ready_) {
      ptx::mbarrier_wait(next_.ready, next_.state % 2);
      rows_.wait();
    }
    const u32 data = next_.data;
    wg::load_values_transposed<Chain>(chunk.v, rows_.values() + own_rows());
    wg::load_decay(decay, data + image.decay, tile::Lane(static_cast<u32>(thread_)));
    wg::pack(chunk.s_operand, s, tile::Scale<type>());
    rows_.have_read(thread_);
    wg::decay_state(s, decay);
  }

  // From what the chunk has begun with to the state after it, and on to the next one.
  KDA_DEVICE void advance(Begun& chunk) {
    namespace wg = chunk_wgmma;
    auto& s = state_.s[0];
    const ptx::WgmmaPlace data = ptx::WgmmaPlace::of_warp(next_.data);
    Chain::Accumulators r;
    Chain::Accumulators o;
    u32 r_operand[kda::chunk / 16][4];
    wg::take_values<Chain>(r, chunk.v);
    wg::hold(r);
    wg::hold(o);
    ptx::wgmma_fence();
    wg::read_state<Chain, -1>(r, chunk.s_operand, data + image.kd);
    ptx::wgmma_commit();
    wg::read_state<Chain>(o, chunk.s_operand, data + image.qd);
    ptx::wgmma_commit();
    rows_.pass();  // while R is on its way
    if constexpr (by_teams) wait_for_writers(next_);
    ptx::wgmma_wait<1>();
    wg::hold(r);
    wg::pack(r_operand, r, tile::Scale<type>());
    wg::hold(s);
    ptx::wgmma_fence();
    wg::write_state<Chain>(s, r_operand, data + image.ak);
    ptx::wgmma_commit();
    const ptx::WgmmaTile aq(data + image.aq, Square::row_bytes, 0, 8 * Square::row_bytes);
#pragma unroll
    for (int i = 0; i < kda::chunk / 16; ++i) {
      ptx::wgmma_m64k16<type, kda::chunk, 0>::run(&o[0][0], r_operand[i], aq.at(i * 32), 1);
    }
    ptx::wgmma_commit();
    // While these are: a look at the next chunk.
    const Step done = next_;
    find_next();
    const bool is_made = ptx::mbarrier_test(next_.ready, next_.state % 2);
    is_ready_ = rows_.is_next_there() && is_made;
    rows_.clear();
    ptx::wgmma_wait<0>();
    wg::hold(s);
    wg::hold(o);
    release(done);
    rows_.wait_free();
    wg::leave_outputs<Chain>(rows_.outputs() + own_rows(), o,
                             tune.slabs != 0 ? 1.0F : args_.in.scale);
    rows_.next(thread_);
  }

  // Until a chunk's Ak and Aq are there, which says nothing of what is told before.
  static KDA_DEVICE void wait_for_writers(const Step& step) {
    ptx::mbarrier_wait(step.ready + Pair::to_writers, step.state % 2);
  }

  // This lane's place among a chunk's rows, of v read and o written transposed.
  KDA_DEVICE u32 own_rows() const {
    const int row = thread_ % 8 + thread_ % 32 / 16 * 8;
    const int unit = thread_ / 32 * 2 + thread_ / 8 % 2;
    return row * Chain::Values::row_bytes + (unit ^ row % 8) * 16;
  }

  // Done with a chunk; to the other block one lane says so for its warp.
  KDA_DEVICE void release(const Step& step) const {
    const bool own = (step.state & Step::own) != 0;
    ptx::mbarrier_arrive_if(own, step.taken);
    ptx::mbarrier_arrive_remote_if(!own && thread_ % 32 == 0, step.taken);
  }

  static KDA_DEVICE Step step_at(u32 at) {
    const uint4 x = ptx::ld_shared_u32x4(at);
    return {x.x, x.y, x.z, x.w};
  }
  KDA_DEVICE void find_next() {
    next_ = step_at(at_);
    at_ += abi::fused::step_bytes;
    if (at_ == pair_.step(steps)) at_ = pair_.step(0);
  }

  const Pair& pair_;
  const abi::fused::Args& args_;
  u32* const doubts_;
  Task* const tasks_;  // of all warps
  int thread_;
  Step next_;              // the next chunk's
  u32 at_;                 // where that of the one after it lies
  bool is_ready_ = false;  // whether its factors and its v are known to be there
  Rows rows_;
  Keep keep_;
  State state_;
};

}  // namespace kda::fused
