// Strategy `chunk`: token-parallel prepare, then head-parallel recurrence over the chunks.
#pragma once

#include "abi/tensors.h"
#include "abi/tunable.h"

namespace kda::abi::chunk {

struct Tuning {
  int chunk = 32;             // C, tokens a chunk
  int prepare_threads = 128;  // threads a block of the prepare stage
  int threads = 128;          // threads a block of the recurrence stage
  int shards = 2;             // CTAs that share the V columns of one head
  int load_stages = 3;        // tiles [C, K] in flight in the recurrence
};

constexpr Tunable<Tuning> tunables[] = {
    {"chunk", &Tuning::chunk, {16, 32, 64}, "tokens a chunk"},
    {"prepare_threads", &Tuning::prepare_threads, {64, 128, 256}, "threads a block, prepare stage"},
    {"threads", &Tuning::threads, {32, 64, 128, 256}, "threads a block, recurrence stage"},
    {"shards", &Tuning::shards, {1, 2, 4, 8, 16}, "CTAs that share one head's V columns"},
    {"load_stages", &Tuning::load_stages, {2, 3, 4, 6}, "factor tiles in flight"},
};

// The folded factors of one chunk and value head, kernels.md part 0.1.  Chunk slots are numbered as
// base/varlen.cuh says; every factor is contiguous, tail rows are zero.
struct Factors {
  void* kd = nullptr;      // [slots, HV, C, Kp] k * exp(P), qkv_type
  void* qd = nullptr;      // [slots, HV, C, Kp] scale * q * exp(P)
  void* ak = nullptr;      // [slots, HV, C, Kp] (M diag(beta))^T (k * exp(Pn - P))
  void* aq = nullptr;      // [slots, HV, C, C]  Aqk M diag(beta)
  float* decay = nullptr;  // [slots, HV, Kp]  exp(Pn)
};

struct PrepareArgs {
  Inputs in;
  Factors factors;
};

struct RecurrenceArgs {
  Inputs in;
  Outputs out;
  Factors factors;
};

}  // namespace kda::abi::chunk
