// A group: the factors of every so many chunks of the pair's stream.
#pragma once

#include "ptx/special_registers.cuh"
#include "sm90/fused/make_by_group.cuh"
#include "sm90/fused/make_by_slab.cuh"

namespace kda::fused {

// A thread of a group; `shared` is the block's memory.
KDA_DEVICE void make(char* shared, const Pair& pair, const abi::fused::Args& args,
                     const Line& line) {
  using Maker = either<tune.slabs != 0, BySlab, ByGroup>;
  Maker maker(shared, Group::number());
  maker.begin(args.in, line);
  u32 round = 0;
  typename Maker::Raw raw;
  maker.load_first(pair, args, raw);
#pragma unroll 1
  while (maker.memory.places[round].rows != 0) {
    // What follows from it is found anew for each chunk: no register is left to hold it.
    maker.thread = static_cast<int>(ptx::thread_now() % Group::threads);
    maker.make(pair, args, line, raw, round);
    round ^= 1;
  }
}

}  // namespace kda::fused
