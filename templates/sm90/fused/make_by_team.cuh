// A chunk's factors by a team of two warps (sm90/teams).  The first half's raw q, k and g wait in
// memory of the team's own while the factors of the chunk before may still be read; the second
// half's come to where its factors will stand, once they may be written.
#pragma once

#include "sm90/fused/maker.cuh"
#include "sm90/fused/task.cuh"
#include "sm90/teams/solve.cuh"

namespace kda::fused {

class ByTeam : teams::Solve {
  using Gate = teams::Gate;

  // What a team remembers from chunk to chunk, among the block's notes.
  struct Notes {
    Memory line;
    float beta[chunk];
  };
  static_assert(sizeof(Notes) <= abi::fused::notes_bytes);
  static_assert(layout.notes % alignof(Notes) == 0 &&
                abi::fused::notes_bytes % alignof(Notes) == 0);

 public:
  using Team::threads;

  KDA_DEVICE ByTeam(char* shared, int thread) : Solve(shared, thread, nullptr) {
    notes_ = reinterpret_cast<Notes*>(shared + layout.notes) + number;
    beta = notes_->beta;
  }

  // All chunks of the team's.
  KDA_DEVICE void make(const Pair& pair, const abi::fused::Args& args, const Line& line) {
    Memory& memory = notes_->line;
    if (warp == 0) {
      const int first = abi::fused::blocks * number + static_cast<int>(Pair::rank());
      Stream::begin(memory.stream, args.in, line, first, memory.places[0]);
      if (own == 0) memory.number = number;
    } else {
      clear_aq();
    }
    meet();
    const Place& first = memory.places[0];
    Gate gate;
    gate.load(own, channel(), args.in, first.head);
    if (warp == 1)
      notes_->beta[own] = slabs::write_strength(own, slabs::load_beta(own, args.in, first), first);
    load(pair).start(raw(0), args.raw, first, 0);
    teams::GateRows::prefetch(*this, args.in, first);
    if constexpr (carried) find_kept(pair, args, first);
    const slabs::Triangle triangle(lane(), has_room);
    u32 round = 0;
#pragma unroll 1
    while (memory.places[round].rows != 0) {
      make_one(pair, args, line, gate, triangle, round);
      round ^= 1;
    }
    wait_for_kept();
  }

 private:
  // The walk notes the next piece before it takes this one's first chunk.  In a piece of so many
  // chunks the team has waited, when it looks for one past the end, until the walk had taken one.
  static constexpr int noted_from = 2 * abi::fused::blocks * groups;
  KDA_DEVICE const Task& noted(int piece) const {
    const char* const tasks = memory - number * teams::team_bytes + Pair::tasks;
    return reinterpret_cast<const Task*>(tasks)[Task::place(piece, 0)];
  }

  KDA_DEVICE u32 channel() const { return warp * teams::wide + own / 4; }
  KDA_DEVICE teams::Load load(const Pair& pair) const { return {*this, pair.landed(number)}; }

  // The chunk at hand, and the place of the next.
  KDA_DEVICE void make_one(const Pair& pair, const abi::fused::Args& args, const Line& line,
                           Gate& gate, const slabs::Triangle& triangle, u32 round) {
    forget();
    wait_for_kept();  // the team meets before anything is written over it
    const abi::Inputs& in = args.in;
    Memory& memory = notes_->line;
    const Place& here = memory.places[round];
    Place& next = memory.places[round ^ 1];
    teams::Scores scores;
    // Both have done with the chunk before.
    ptx::mbarrier_wait(pair.made(number) + Pair::to_writers, round ^ 1);
    if (!args.raw.present) [[unlikely]] {
      if constexpr (carried) meet();
      load(pair).by_hand(raw(0), in, here, 0);
      ptx::mbarrier_wait(pair.taken(number), round ^ 1);
      load(pair).by_hand(raw(1), in, here, 1);
    }
    bool has_started = false;
    make_rows(
        scores, gate, triangle, Gate::of_tokens(in.lower_bound, lane().t), in.scale,
        [&](int half, u32 at) { return teams::GateRows(*this, at, in, here, half); },
        [&](int half) {
          load(pair).wait(half);
          if (half == 0 && !carried) {  // where the team need not meet before
            // One answer for the warp, which start() elects of.
            has_started =
                __all_sync(0xffffffffU, ptx::mbarrier_test(pair.taken(number), round ^ 1)) != 0;
            if (has_started) load(pair).start(raw(1), args.raw, here, 1);
          }
          load(pair).finish(raw(half), here.rows, half);
        },
        [&] {
          if (has_started) [[likely]]
            return;
          ptx::mbarrier_wait(pair.taken(number), round ^ 1);
          load(pair).start(raw(1), args.raw, here, 1);
        });
    forget();
    slabs::Beta next_beta = 0;  // when nobody reads this one's any more
    make_writers(
        scores, in.scale, [&] { ptx::mbarrier_arrive(pair.made(number)); },
        [&] {
          const Place place = Stream::advance<noted_from>(
              memory.stream, in, line, abi::fused::blocks * groups, here, next,
              [&](int piece) -> const Task& { return noted(piece); });
          next_beta = slabs::load_beta(own, in, place);
          // Last, as it may have to wait.
          if (ptx::elect()) pair.push_rows(number, memory.number, round);
          __syncwarp();
        },
        [&] {
          if (warp == 1) notes_->beta[own] = slabs::write_strength(own, next_beta, next);
          if (next.head != here.head) [[unlikely]]
            gate.load(own, channel(), in, next.head);
          load(pair).start(raw(0), args.raw, next, 0);
          teams::GateRows::prefetch(*this, in, next);
        });
    ptx::mbarrier_arrive(pair.made(number) + Pair::to_writers);
    if (warp == 0) {  // the other goes on
      if (ptx::elect()) {
        pair.push_writers(number, memory.number, round);
        if constexpr (carried) keep(pair);
        memory.number += groups;
      }
      __syncwarp();
    }
  }

  // Until what keep() has sent has been read.
  KDA_DEVICE void wait_for_kept() const {
    if constexpr (carried) {
      if (warp == 0 && ptx::elect()) ptx::bulk_store_wait_read();
      __syncwarp();
    }
  }

  // Where the images of the team's chunks go that are among the first of a later segment.
  KDA_DEVICE void find_kept(const Pair& pair, const abi::fused::Args& args, const Place& first) {
    const abi::Inputs& in = args.in;
    const int segment = Line::segment(in);
    const bool others = shards > 1 && Line::pair() % shards != 0;  // of other V columns keep them
    if (segment == 0 || others) return;
    const int own = abi::fused::blocks * number + static_cast<int>(Pair::rank());
    const int kept = args.kept.chunks;
    constexpr int step = abi::by_gates::kept_where_forgotten;
    static_assert(!carried || step == abi::fused::blocks * groups,
                  "each team's first chunk is kept");
    kept_left_ = kept > own ? (kept - own + step - 1) / step : 0;
    const i64 chunks = static_cast<i64>((segment - 1) * in.sequences + first.n) * args.kept.chunks;
    kept_ = args.kept.images + ((chunks + own) * in.value_heads + first.head) * image.bytes;
    kept_step_ = step * in.value_heads * image.bytes;
  }
  // Sends the image of one of them; one thread.  When a team's first chunk has been taken it is
  // known whether more are kept.
  KDA_DEVICE void keep(const Pair& pair) {
    if (kept_left_ == 0) return;
    --kept_left_;
    if (notes_->line.number >= groups && !keeps_more(pair)) {
      kept_left_ = 0;
      return;
    }
    ptx::bulk_store(kept_, pair.image(number), image.bytes);
    ptx::bulk_store_commit();
    kept_ += kept_step_;
  }

  static KDA_DEVICE bool keeps_more(const Pair& pair) {
    return ptx::ld_shared_u32(pair.decision()) > abi::by_gates::kept_where_forgotten;
  }

  // Beside a walk that rounds states what follows from the lane is found anew from here on: else
  // ptxas holds it through all chunks, and spills.
  KDA_DEVICE void forget() {
    if constexpr (shape.state_type != abi::DType::f32) {
      asm volatile("" : "+r"(own));
    }
  }

  Notes* notes_;
  char* kept_ = nullptr;
  int kept_step_ = 0;
  int kept_left_ = 0;
};

}  // namespace kda::fused
