// A chunk's factors by a group whose warps have their channels to themselves (sm90/slabs): q, k and
// g wait in memory of the warp's own while the factors of the chunk before may still be read.
#pragma once

#include "sm90/fused/maker.cuh"
#include "sm90/slabs/factors.cuh"

namespace kda::fused {

struct BySlab : Maker<slabs::Factors> {
  using Maker::Maker;
  using Raw = slabs::Incoming;

  KDA_DEVICE void begin(const abi::Inputs& in, const Line& line) {
    if (thread == 0) memory.by_units = slabs::loads_units(in);
    Maker::begin(in, line);
  }

  // What is wanted of a place early: the gate's constants and beta in registers, rows on their way.
  KDA_DEVICE void load(Raw& raw, const abi::Inputs& in, const Place& place) const {
    raw.load(thread, in, place);
    slabs::load_slabs(thread, shared, in, place, memory.by_units);
  }

  // The chunk at hand, and the place of the next.
  KDA_DEVICE void make(const Pair& pair, const abi::Inputs& in, const Line& line, Raw& raw,
                       u32 round) {
    const u32 address = pair.image(group);
    const int rows = memory.places[round].rows;
    const slabs::BoundedGate gate(raw, in.lower_bound);
    if (thread < chunk) shared.beta[thread] = raw.write_strength(thread, rows);
    ptx::cp_async_wait_all();
    __syncwarp();
    ptx::mbarrier_wait(pair.made(group), round ^ 1);  // of the chunk before: all have its scores
    make_rows(buffer, address, gate, in.scale, rows,
              [&] { ptx::mbarrier_wait(pair.taken(group), round ^ 1); });
    end(pair, in, line, round, [&](const Place& next) { load(raw, in, next); });
  }
};

}  // namespace kda::fused
