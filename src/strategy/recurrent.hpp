// Token by token: decode, very short sequences, the yardstick inside the library.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {
extern const Strategy recurrent;

// Its kernel as the last stage of a strategy of chunks, for sequences of up to so many tokens,
// while the stage before is at work on longer ones.  Every block of that one must let it start
// (launch_dependents), and some block wait for the first stage, every block of which begins after
// what came before the run or waits for it.
Result<compose::Stage> short_stage(const Problem& problem, const device::Device& device,
                                   int short_tokens);

}  // namespace kda::strategy
