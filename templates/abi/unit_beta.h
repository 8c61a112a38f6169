// Strategy unit_beta: a run as if beta lay in [0, 1], and again, by kernels that serve any, where
// one was found that does not.
#pragma once

#include "abi/guard.h"
#include "abi/tensors.h"
#include "abi/tunable.h"

namespace kda::abi::unit_beta {

// Of the kernel that looks: blocks, each with a word for what it has found, and their threads.
constexpr int blocks = guard_words;
constexpr int threads = 512;

struct Tuning {
  int by = 1;  // strategy of the first way: 1 fused, 2 chunk_wgmma, 3 segments
};
inline constexpr Tunable<Tuning> tunables[] = {
    {"by", &Tuning::by, {1, 2, 3}, "how a run begins: 1 fused, 2 chunk_wgmma, 3 segments"},
};

struct Args {
  Inputs in;
  unsigned* found = nullptr;  // [blocks], 1 where a beta was out of [0, 1]
  int again = 0;              // 1: as if one was
};

}  // namespace kda::abi::unit_beta
