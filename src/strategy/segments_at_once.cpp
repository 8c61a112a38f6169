#include "strategy/segments_at_once.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "compose/prelude.hpp"
#include "compose/workspace.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/tensor_box.hpp"

namespace kda::strategy::segments_at_once {

using abi::segments::Args;
using compose::Launch;
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
  if (!prepares_by_group(problem, device, tuning.chunk)) {
    return refuse(fmt::format(
        "with chunk={}; it needs sm_90, bf16, l2norm or qk_normalized, beta up to 1 (logits, or "
        "beta_at_most_one), key_dim a multiple of 64, lower_bound >= -100, no w and u, and "
        "chunk=32; segments=1 does (the problem is {})",
        tuning.chunk, problem::to_text(problem)));
  }
  if (problem.value_dim % (64 * tuning.warpgroups) != 0) {
    return refuse(
        fmt::format("with warpgroups={} where value_dim is {}: each warpgroup has 64 "
                    "columns; segments=1 does",
                    tuning.warpgroups, problem.value_dim));
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

namespace {

// Where the segments of a problem's largest run lie in the workspace.
class Slices {
 public:
  Slices(const Problem& problem, const Tuning& tuning, compose::Workspace& workspace) {
    const abi::Shape shape = problem::shape_of(problem);
    const auto tiles_of = [&](std::int64_t slots) {
      return static_cast<std::size_t>(slots * problem.value_heads *
                                      abi::segments::value_tiles(shape));
    };
    // Of N sequences at most N * (segments + 1) slots, whose chunks are half as many again as there
    // are, where there are two a sequence, and one each.
    const std::int64_t slots = std::int64_t{problem.max_sequences} * (tuning.segments + 1);
    const std::size_t tiles = tiles_of(slots);
    const auto tile_bytes = static_cast<std::size_t>(abi::segments::tile_bytes(shape));
    states_ = workspace.take(tiles * tile_bytes);
    carried_ = workspace.take(tiles * tile_bytes);
    ends_ = workspace.take(tiles * sizeof(unsigned));
    const std::int64_t looks =
        slots * abi::segments::carry_looks(32) +
        abi::segments::carry_looks(static_cast<int>(problem.max_tokens * 3 / 2 / tuning.chunk));
    lengths_ = workspace.take(tiles_of(looks) * 64 * sizeof(float));
  }

  // chunks: a segment.
  void give(Args& args, std::byte* workspace, int chunks) const {
    args.segments.states = reinterpret_cast<float*>(workspace + states_);
    args.segments.chunks = chunks;
    args.carried.states = reinterpret_cast<float*>(workspace + carried_);
    args.carried.lengths = reinterpret_cast<float*>(workspace + lengths_);
    args.carried.ends = reinterpret_cast<unsigned*>(workspace + ends_);
  }

 private:
  std::size_t states_, carried_, ends_, lengths_;
};

// A chain of V columns in each segment, from the state before it where that is known, or of it.
class Chains {
 public:
  Chains(const Problem& problem, const device::Device& device, const Tuning& tuning,
         const FactorSlices& factors, const Slices& slices)
      : problem_(problem),
        shape_(problem::shape_of(problem)),
        alone_bytes_(device.shared_per_multiprocessor / 2),
        tuning_(tuning),
        cut_(cut_of(problem, device, tuning)),
        factors_(factors),
        slices_(slices) {}

  compose::Stage walk() const {
    return stage("walk", abi::segments::chain_of(tuning_), alone_bytes_);
  }

  compose::Stage carry() const {
    abi::chunk_wgmma::Tuning chain = abi::segments::chain_of(tuning_);
    chain.warpgroups = 1;
    chain.stages_at_once = 1;
    return stage("carry", chain, 0);
  }

 private:
  // least_bytes: of shared memory, more than half of a multiprocessor's where a block is to have it
  // to itself.
  compose::Stage stage(const char* name, const abi::chunk_wgmma::Tuning& chain,
                       std::size_t least_bytes) const {
    compose::Stage stage;
    stage.name = name;
    stage.file = fmt::format("segments/{}.cu", name);
    stage.entry = fmt::format("kda_segments_{}", name);
    stage.overlaps_previous = true;
    stage.prelude = compose::prelude(shape_, {{"chunk", chain.chunk},
                                              {"warpgroups", chain.warpgroups},
                                              {"load_stages", chain.load_stages},
                                              {"stages_at_once", chain.stages_at_once},
                                              {"carried", 1}});
    stage.threads = static_cast<unsigned>(abi::chunk_wgmma::chain_threads(shape_, chain));
    stage.shared_bytes = std::max(
        static_cast<std::size_t>(abi::segments::walk_shared_bytes(shape_, chain)), least_bytes);
    const bool adds = chain.stages_at_once == 1;  // to o
    stage.bind = [*this, chain, adds](const Run& run, Launch& launch) {
      const int chunks = cut_.chunks(run.forward, chain.chunk);
      const std::int64_t slots =
          slots_of(run.forward.tokens, run.forward.sequences, chunks * chain.chunk);
      launch.grid[0] = static_cast<unsigned>(slots * problem_.value_heads *
                                             abi::segments::value_units(shape_, chain.warpgroups));
      Args args{.chain = {.in = problem::inputs_of(problem_, run.forward),
                          .out = problem::outputs_of(problem_, run.forward),
                          .factors = factors_.at(run)}};
      slices_.give(args, run.workspace, chunks);
      const std::optional<RowBoxes> rows =
          abi::chunk_wgmma::maps_rows(shape_, chain)
              ? boxes_of_rows(problem_, args.chain.in, args.chain.out, chain.chunk)
              : std::nullopt;
      args.rows.present = rows.has_value();
      launch.set(args);
      if (rows) {
        launch.add_map(offsetof(Args, rows.v), adds ? rows->o : rows->v);
        launch.add_map(offsetof(Args, rows.o), rows->o);
      }
    };
    return stage;
  }

  Problem problem_;
  abi::Shape shape_;
  std::size_t alone_bytes_;
  Tuning tuning_;
  Cut cut_;
  FactorSlices factors_;
  Slices slices_;
};

}  // namespace

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const Tuning& tuning, const tunable::Values& values) {
  compose::Workspace workspace;
  const FactorSlices factors(problem, tuning.chunk, workspace, true);
  const Chains chains(problem, device, tuning, factors, Slices(problem, tuning, workspace));
  compose::Recipe recipe;
  recipe.strategy = "segments";
  recipe.tuning = values;
  recipe.workspace_bytes = workspace.bytes();
  recipe.stages.push_back(prepare_beside_stage(problem, device, factors,
                                               {.chains = chain_blocks(problem, device, tuning),
                                                .ahead = true,
                                                .cut = cut_of(problem, device, tuning)}));
  recipe.stages.push_back(chains.walk());
  recipe.stages.push_back(chains.carry());
  return recipe;
}

}  // namespace kda::strategy::segments_at_once
