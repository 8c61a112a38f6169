// A run on a pool of states (kda/state_pool.hpp) in fp64.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/recurrence.hpp"

namespace kda::reference {

// The host's copy of a run's slot tables.
struct Slots {
  std::int64_t slots = 0;                         // of the pool
  int columns = 1;                                // of indices
  std::vector<std::int64_t> indices;              // [N, columns]
  std::vector<std::int64_t> initial_indices;      // [N] or empty
  std::vector<std::int64_t> num_accepted_tokens;  // [N] or empty
  int checkpoint_columns = 0;
  std::vector<std::int64_t> checkpoints;  // [N, checkpoint_columns] or empty
};

constexpr std::int64_t kFromZero = -1;  // of start_of
constexpr std::int64_t kPadding = -2;

// The slot that sequence n starts from, or one of the two above.
std::int64_t start_of(const Problem& problem, const Slots& slots, int n);

struct PooledOutputs {
  // [T, HV, V]; NaN: left as it was, since no sequence or only padding covers the token.
  std::vector<double> o;
  std::vector<double> pool;           // [slots, HV, K, V]; what nobody wrote is as it came
  std::vector<std::int64_t> writers;  // [slots]: how many states went to each slot
};

// inputs.initial_state is not read; pool is [slots, HV, K, V], key-first.  Every slot is read
// before any is written.  Where several states go to one slot, pool holds one of them.
PooledOutputs pooled(const Inputs& inputs, const std::vector<double>& pool, const Slots& slots,
                     Arithmetic arithmetic = Arithmetic::fp64);

}  // namespace kda::reference
