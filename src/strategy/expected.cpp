#include "strategy/expected.hpp"

#include <fmt/format.h>

#include "strategy/lengths.hpp"

namespace kda::strategy {

std::string expected_of_what(const Problem& problem) {
  const double share = mixed_share(problem);
  if (share == 0.0) return {};
  return fmt::format(
      "{:.1f} tokens a sequence on the average: they may be alike, or a prefill and decodes, and "
      "what is expected is {}; mixed_lengths (mixed=1) says that it is the latter",
      mean_length(problem),
      share == 0.5 ? "the mean of both" : "three quarters of the one and a quarter of the other");
}

// What may be either counts as some of each: by its mean length alone 256 decodes and 8192 tokens
// of 16 heads went by `fused`, 540 us on an H200 where `chunk_wgmma` takes 390.  Packs that are
// alike lose what tools/results/log says, of 4 to 8 tokens most (short_sequences.md), of more
// little: 64 sequences of 16, 24 and 32 tokens, 8 heads, take 41, 43 and 41 us by `chunk_wgmma`,
// 50, 55 and 40 by `fused`, 50, 67 and 83 by `recurrent` (kda-bench "H=8 seqlens=64x16" --strategy
// chunk_wgmma --strategy fused --strategy recurrent).
double expected_microseconds(const Strategy& strategy, const Problem& problem,
                             const device::Device& device, const tunable::Values& values) {
  const double alike = strategy.estimate(problem, device, values);
  const double share = mixed_share(problem);
  if (share == 0.0) return alike;
  Problem mixed = problem;
  mixed.mixed_lengths = true;
  return (1 - share) * alike + share * strategy.estimate(mixed, device, values);
}

}  // namespace kda::strategy
