// A chunk's factors by a group whose warps have their channels to themselves (sm90/slabs): q, k and
// g wait in memory of the warp's own while the factors of the chunk before may still be read.
#pragma once

#include "sm90/fused/maker.cuh"
#include "sm90/slabs/factors.cuh"

namespace kda::fused {

struct BySlab : Maker<slabs::Factors> {
  using Maker::Maker;
  using Raw = slabs::Factors::Gate;  // of the head at hand

  // What is wanted of the first chunk early.
  KDA_DEVICE void load_first(const Pair& pair, const abi::fused::Args& args, Raw& gate) const {
    const Place& first = memory.places[0];
    gate.load(number_in_warp(), channel(), args.in, first.head);
    if (thread < chunk) {
      const slabs::Beta raw = slabs::load_beta(number_in_warp(), args.in, first);
      shared.beta[thread] = slabs::write_strength(number_in_warp(), raw, first);
    }
    load(pair).start(role(), args.raw, first);
    if (!args.raw.present) load(pair).by_hand(args.in, first);
  }

  // The chunk at hand, and the place of the next.
  KDA_DEVICE void make(const Pair& pair, const abi::fused::Args& args, const Line& line, Raw& gate,
                       u32 round) {
    const abi::Inputs& in = args.in;
    const u32 address = pair.image(group);
    const int rows = memory.places[round].rows;
    ptx::mbarrier_wait(pair.landed(group), round);
    load(pair).finish(rows);
    ptx::mbarrier_wait(pair.made(group), round ^ 1);  // of the chunk before: all have its scores
    make_rows(buffer, address, gate, Raw::of_tokens(in.lower_bound, lane().t), in.scale,
              [&] { ptx::mbarrier_wait(pair.taken(group), round ^ 1); });
    slabs::Beta beta = 0;  // of the next, when nobody reads this one's any more
    end(
        pair, in, line, round, ScoreSize::of_scaled(in.scale),
        [&](const Place& next) { beta = slabs::load_beta(number_in_warp(), in, next); },
        [&](const Place& next) {
          if (role() == 2) {
            shared.beta[number_in_warp()] = slabs::write_strength(number_in_warp(), beta, next);
          }
          if (next.head != memory.places[round].head)
            gate.load(number_in_warp(), channel(), in, next.head);
          load(pair).start(role(), args.raw, next);
        });
    if (!args.raw.present) load(pair).by_hand(in, memory.places[round ^ 1]);
  }

 private:
  using slabs::Factors::number_in_warp;

  KDA_DEVICE u32 channel() const {
    return static_cast<u32>(thread) / 32 * slab + static_cast<u32>(thread) % 32 / 4;
  }
  KDA_DEVICE slabs::Load load(const Pair& pair) const {
    return {shared, thread, pair.landed(group)};
  }
};

}  // namespace kda::fused
