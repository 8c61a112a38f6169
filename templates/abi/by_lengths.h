// Strategy by_lengths: two ways through a pack, of which each run takes one by its longest sequence
// (abi/guard.h), as no plan knows how a pack's sequences differ.
#pragma once

#include "abi/tunable.h"

namespace kda::abi::by_lengths {

struct Tuning {
  int alike = 1;   // strategy where they are alike: 1 fused, 2 chunk_wgmma, 3 segments
  int unlike = 2;  // where one has most of the tokens
};
inline constexpr Tunable<Tuning> tunables[] = {
    {"alike",
     &Tuning::alike,
     {1, 2, 3},
     "where sequences are alike: 1 fused, 2 chunk_wgmma, 3 segments"},
    {"unlike", &Tuning::unlike, {1, 2, 3}, "where one has most of the tokens, likewise"},
};

}  // namespace kda::abi::by_lengths
