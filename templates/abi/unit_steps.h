// Strategy unit_steps: a run as if every step of the delta rule were at most one (beta in [0, 1],
// keys of unit length), and again, by kernels that serve any, where one was not.
#pragma once

#include "abi/guard.h"
#include "abi/tensors.h"
#include "abi/tunable.h"

namespace kda::abi::unit_steps {

// Of the kernel that looks: blocks, each with a word for what it has found, and their threads.
constexpr int blocks = guard_words;
constexpr int threads = 128;

struct Tuning {
  int by = 1;  // strategy of the first way: 1 fused, 2 chunk_wgmma, 3 segments, 4 by_lengths
};
inline constexpr Tunable<Tuning> tunables[] = {
    {"by",
     &Tuning::by,
     {1, 2, 3, 4},
     "how a run begins: 1 fused, 2 chunk_wgmma, 3 segments, 4 by_lengths"},
};

struct Args {
  Inputs in;
  Outputs out;                // what the first way wrote
  unsigned* found = nullptr;  // [blocks], 1 where an output is NaN
  int short_tokens = 1;       // past 1: not of sequences of up to so many, which served any step
};

// Of the kernel that keeps what a run of a pool begins from, as a run again would find its slots
// written: threads a block, and the parts of a head's state that blocks take in turn.
constexpr int keep_threads = 256;
constexpr int keep_parts = 4;

struct KeepArgs {
  Inputs in;
  Outputs out;
  void* kept = nullptr;  // [N, HV, K, V] or [N, HV, V, K] as the pool has it; on 16 bytes
  int short_tokens = 1;  // as Args has it: those are not served again
};

}  // namespace kda::abi::unit_steps
