// A group: the factors of every so many chunks of the pair's stream.
#pragma once

#include "ptx/special_registers.cuh"
#include "sm90/fused/make_by_group.cuh"
#include "sm90/fused/make_by_slab.cuh"
#include "sm90/fused/make_by_team.cuh"

namespace kda::fused {

// A thread of a group of four warps; `shared` is the block's memory.
template <class Maker>
KDA_DEVICE void make_by(char* shared, const Pair& pair, const abi::fused::Args& args,
                        const Line& line) {
  Maker first(shared, Group::number());
  first.begin(args.in, line);
  u32 round = 0;
  typename Maker::Raw raw;
  first.load_first(pair, args, raw);
#pragma unroll 1
  while (first.memory.places[round].rows != 0) {
    // What follows from thread and group is found anew for each chunk: no register is left to hold
    // it.
    int group = first.group;
    asm volatile("" : "+r"(group));
    Maker maker(shared, group);
    maker.thread = static_cast<int>(ptx::thread_now() % Group::threads);
    maker.make(pair, args, line, raw, round);
    round ^= 1;
  }
}

// A thread of any group.
KDA_DEVICE void make(char* shared, const Pair& pair, const abi::fused::Args& args,
                     const Line& line) {
  if constexpr (by_teams) {
    ByTeam(shared, static_cast<int>(threadIdx.x)).make(pair, args, line);
  } else {
    make_by<either<tune.slabs != 0, BySlab, ByGroup>>(shared, pair, args, line);
  }
}

}  // namespace kda::fused
