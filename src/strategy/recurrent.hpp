// Token by token: decode, very short sequences, the yardstick inside the library.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {
extern const Strategy recurrent;

// Its kernel as the last stage of a strategy of chunks, for sequences of up to so many tokens,
// while the stage before is at work on longer ones.  Every block of that one must let it start
// (launch_dependents), and some block wait for the first stage, every block of which begins after
// what came before the run or waits for it.
// by_ring: as strategy/short_ring.hpp has it.
Result<compose::Stage> short_stage(const Problem& problem, const device::Device& device,
                                   int short_tokens, bool by_ring);

// Whether a tuning that asks for rings has such a stage.
Status check_short_by(const char* strategy, int short_tokens, int short_by);

// What that takes of a mixed pack's decodes, with all of the device.
double decodes_microseconds(const Problem& problem, const device::Device& device);

// And of a pack whose sequences are all short and of one length.
double shorts_microseconds(const Problem& problem, const device::Device& device);

// Up to here token by token is faster (256 such sequences beside one of 8192, H = 16 on an H200: of
// 1 token 289 us for 509 by chunks of two warpgroups, of 8 528 for 549, of 16 875 for 558;
// tools/results/log/short_sequences.md has the command.  By rings of three, since then, those of 1
// take 458).
inline constexpr int kShortTokens = 8;

}  // namespace kda::strategy
