// Many pool trials through every strategy, as sweep.hpp does for plain ones.
#pragma once

#include <vector>

#include "support/pool_rig.hpp"
#include "support/sweep.hpp"

namespace kda::test {

// Slots for `sequences` of a trial: their own scattered over a pool with spare slots between, and
// every seventh sequence padding by a negative index or one past the pool.
struct SlotsSpec {
  int sequences = 1;
  int columns = 1;             // over 1: drafts
  int checkpoint_columns = 0;  // some of them -1
  bool prefixes = false;       // initial_indices: own slots, shared prefixes, zero, past the pool
  bool accepted = false;       // num_accepted_tokens: 0 .. columns + 1
  std::uint64_t seed = 1;
};
reference::Slots make_slots(const SlotsSpec& spec);

Tally sweep_pools(const char* title, const std::vector<PoolTrial>& trials,
                  const std::vector<Variant>& variants = every_strategy());

// The trials themselves, for compose_only.
std::vector<Trial> plain(const std::vector<PoolTrial>& trials);

}  // namespace kda::test
