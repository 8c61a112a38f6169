// Strategy `recurrent`: one kernel, token by token.
#pragma once

#include "abi/tensors.h"
#include "abi/tunable.h"

namespace kda::abi::recurrent {

struct Tuning {
  int threads = 128;  // per block
  int columns = 32;   // V columns a block keeps; V is split over ceil(V / columns) blocks
};

constexpr Tunable<Tuning> tunables[] = {
    {"threads", &Tuning::threads, {64, 128, 256}, "threads a block"},
    {"columns", &Tuning::columns, {8, 16, 32, 64, 128}, "V columns a block"},
};

struct StepArgs {
  Inputs in;
  Outputs out;
};

}  // namespace kda::abi::recurrent
