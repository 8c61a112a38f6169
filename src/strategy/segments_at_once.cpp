#include "strategy/segments_at_once.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "abi/factors.h"
#include "compose/workspace.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/carried_states.hpp"
#include "strategy/prepared_by.hpp"

namespace kda::strategy::segments_at_once {

using compose::Run;

namespace {

// Blocks of the walk, at most: a quarter of the device must be left to prepare.
std::int64_t most_chains(const device::Device& device) { return device.multiprocessors * 3 / 4; }

// Blocks a segment.
std::int64_t chains_each(const Problem& problem, const Tuning& tuning) {
  return std::int64_t{problem.value_heads} *
         abi::segments::value_units(problem::shape_of(problem), tuning.warpgroups);
}

Cut cut_of(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  return {.segments = tuning.segments, .most = most_chains(device) / chains_each(problem, tuning)};
}

}  // namespace

ChainBlocks chain_blocks(const Problem& problem, const device::Device& device,
                         const Tuning& tuning) {
  return {.each = chains_each(problem, tuning) * tuning.segments, .most = most_chains(device)};
}

Status check(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  const auto refuse = [&](const std::string& why) -> Status {
    return {Code::unsupported,
            fmt::format("strategy segments: segments={} {}", tuning.segments, why)};
  };
  if (tuning.segment != Tuning{}.segment) {
    return refuse(
        fmt::format("with segment={}: they are as long as a run makes them; segment={} "
                    "does, or segments=1",
                    tuning.segment, Tuning{}.segment));
  }
  if (problem.varlen) {
    return refuse("with varlen: sequences of a dense run alone are cut alike; segments=1 does");
  }
  if (problem.checkpoint_tokens > 0) {
    return refuse(
        fmt::format("with checkpoint_tokens={}: checkpoints lie between segments, and "
                    "these are of any length; segments=1 does",
                    problem.checkpoint_tokens));
  }
  if (const std::string why = why_not_plainly(problem, device, tuning.chunk); !why.empty()) {
    return refuse(fmt::format("where {}; segments=1 does (the problem is {})", why,
                              problem::to_text(problem)));
  }
  if (problem.value_dim % (64 * tuning.warpgroups) != 0) {
    return refuse(
        fmt::format("with warpgroups={} where value_dim is {}: each warpgroup has 64 "
                    "columns; segments=1 does",
                    tuning.warpgroups, problem.value_dim));
  }
  // Kernels count a segment's tokens by 32 bits.
  constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 2 * abi::factors::chunk;
  if (problem.max_tokens > kMostTokens) {
    return refuse(fmt::format("with max_tokens={}: at most {} are served; segments=1 does",
                              problem.max_tokens, kMostTokens));
  }
  // What is carried is added to o over the scale.
  constexpr float kLeast = 0x1p-40F;
  if (const float scale = std::abs(problem.scale); !(scale >= kLeast && scale <= 1 / kLeast)) {
    return refuse(
        fmt::format("with scale = {}: 2^-40 to 2^40 are served; segments=1 does", problem.scale));
  }
  // In a run of more sequences than fit with so many each has fewer, but for two of each.
  const std::int64_t chains = 2 * chains_each(problem, tuning) * problem.max_sequences;
  if (const std::int64_t most = most_chains(device); chains > most) {
    return refuse(
        fmt::format("would give {} or more of {} multiprocessors to the walk, at most {} "
                    "leave enough to prepare; segments=1 does",
                    chains, device.multiprocessors, most));
  }
  return {};
}

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const Tuning& tuning, const tunable::Values& values) {
  compose::Workspace workspace;
  const Cut cut = cut_of(problem, device, tuning);
  const FactorSlices factors(problem, tuning.chunk, workspace, true);
  const CarriedStates states(problem, cut, workspace);
  const GiveSegments give = [=, chunk = tuning.chunk](const Run& run, abi::segments::Args& args) {
    args.chain.factors = factors.at(run);
    states.give(args, run.workspace, cut.chunks(run.forward, chunk));
  };
  compose::Recipe recipe;
  recipe.strategy = "segments";
  recipe.tuning = values;
  recipe.workspace_bytes = workspace.bytes();
  recipe.stages.push_back(prepare_beside_stage(
      problem, device, factors,
      {.chains = chain_blocks(problem, device, tuning), .ahead = true, .cut = cut}));
  compose::Stage walk =
      stage_of_segments("walk", problem, cut, abi::segments::chain_of(tuning), false, give);
  // More than half of what a multiprocessor has: one block each.
  walk.shared_bytes = std::max(walk.shared_bytes, device.shared_per_multiprocessor / 2);
  recipe.stages.push_back(std::move(walk));
  recipe.stages.push_back(carry_stage(problem, cut, tuning.load_stages, give));
  return recipe;
}

}  // namespace kda::strategy::segments_at_once
