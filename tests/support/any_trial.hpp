// Problems, inputs and tunings drawn from all that there may be, where other lists of trials are
// chosen to meet each pair of options once.
#pragma once

#include "support/dice.hpp"
#include "support/pool_sweep.hpp"
#include "support/sweep.hpp"

namespace kda::test {

// A legal one, small enough for the fp64 recurrence.
Trial any_trial(Dice& dice);
// The same of a state pool.
PoolTrial any_pool_trial(Dice& dice);

// A strategy and some of its tunables, each at a value of its list; not every problem is served.
Variant any_tuning(Dice& dice);

}  // namespace kda::test
