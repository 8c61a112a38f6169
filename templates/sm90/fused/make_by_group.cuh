// A chunk's factors by a group, whatever the gate: q and k come through registers, since where they
// will stand the factors of the chunk before may still be read.
#pragma once

#include "sm90/factors/factors.cuh"
#include "sm90/factors/incoming.cuh"
#include "sm90/fused/keys.cuh"
#include "sm90/fused/maker.cuh"

namespace kda::fused {

struct ByGroup : Maker<Factors> {
  using Maker::Maker;
  using Raw = Incoming;

  // What is wanted of the first chunk early.
  KDA_DEVICE void load_first(const Pair&, const abi::fused::Args& args, Raw& raw) const {
    load(raw, args.in, memory.places[0]);
  }

  // The chunk at hand, and the place of the next.
  KDA_DEVICE void make(const Pair& pair, const abi::fused::Args& args, const Line& line, Raw& raw,
                       u32 round) {
    const abi::Inputs& in = args.in;
    const u32 address = pair.image(group);
    const Place& here = memory.places[round];
    Keys k;
    k.fetch(thread, in.k, here.k_origin(in), here.rows);
    Keys q;
    q.fetch(thread, in.q, here.q_origin(in), here.rows);
    ptx::cp_async_wait_all();
    __syncwarp();
    const bool strong = accumulate_decays(raw, in.lower_bound, here.rows);
    ptx::mbarrier_wait(pair.taken(group), round ^ 1);  // the chunk before
    k.put(thread, address + image.kd, in.k, here.k_origin(in), here.rows);
    q.put(thread, address + image.qd, in.q, here.q_origin(in), here.rows);
    __syncwarp();
    forget();
    make_rows(buffer, address, strong);
    end(
        pair, in, line, round, ScoreSize::of_unscaled(), [](const Place&) {},
        [&](const Place& next) { load(raw, in, next); });
  }

 private:
  // The gate's constants and beta in registers, g on its way.
  KDA_DEVICE void load(Raw& raw, const abi::Inputs& in, const Place& place) const {
    raw.load(thread, in, place);
    load_gate(thread, shared, in, place);
  }
};

}  // namespace kda::fused
