#include "strategy/unit_beta.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "abi/chunk_wgmma.h"
#include "abi/factors.h"
#include "abi/guard.h"
#include "abi/unit_beta.h"
#include "compose/prelude.hpp"
#include "compose/workspace.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/chunk_factors.hpp"
#include "strategy/chunk_wgmma.hpp"
#include "strategy/fused.hpp"
#include "strategy/kept_states.hpp"
#include "strategy/lengths.hpp"
#include "strategy/segments.hpp"

namespace kda::strategy {
namespace {

using abi::unit_beta::Tuning;
using compose::Launch;
using compose::Run;

// By Tuning::by, from 1 on.
constexpr std::array<const Strategy*, 3> kWays = {&fused, &chunk_wgmma, &segments};

// What a look at all betas takes, and two kernels that then have nothing to do: within the noise of
// 375 us on an H100.  Taken for more, as a second way has its price: a workspace, and the host's
// time for its kernels.
constexpr double kLookMicroseconds = 8.0;

Problem promised(const Problem& problem) {
  Problem sure = problem;
  sure.beta_at_most_one = true;
  return sure;
}

Status applicable(const Problem& problem, const device::Device& device) {
  if (Status status = check_kept_states("unit_beta", problem); !status) return status;
  if (problem.beta_is_logit || problem.beta_at_most_one) {
    return {Code::unsupported,
            "strategy unit_beta: it is for a beta that is given without a sigmoid or a promise "
            "(beta_is_logit = false, beta_at_most_one = false)"};
  }
  if (problem.state_pool || is_mixed(problem)) {
    return {Code::unsupported,
            "strategy unit_beta: no state pools or mixed_lengths, as a run may begin again"};
  }
  if (!prepares_by_group(promised(problem), device, abi::factors::chunk)) {
    return {Code::unsupported,
            fmt::format("strategy unit_beta: nothing is faster for a beta of at most 1 but on "
                        "sm_90, with bf16, l2norm, key_dim 64 or 128, lower_bound >= -100 and no "
                        "w and u (the problem is {})",
                        problem::to_text(problem))};
  }
  return chunk_wgmma.applicable(problem, device);
}

tunable::Space space() { return tunable::space_of(abi::unit_beta::tunables); }

// Expected microseconds of the first way; infinite where it does not serve.
double way_microseconds(const Problem& sure, const device::Device& device, const Strategy& way) {
  if (!way.applicable(sure, device)) return std::numeric_limits<double>::infinity();
  return way.estimate(sure, device, way.defaults(sure, device));
}

tunable::Values defaults(const Problem& problem, const device::Device& device) {
  const Problem sure = promised(problem);
  Tuning tuning{.by = 2};
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < kWays.size(); ++i) {
    const double us = way_microseconds(sure, device, *kWays[i]);
    if (us >= least) continue;
    least = us;
    tuning.by = static_cast<int>(i) + 1;
  }
  return tunable::values_of(tuning, abi::unit_beta::tunables);
}

// Whether a run's final states lie where its initial ones do, which are needed to begin again; else
// they lie apart (problem/check.cpp).
bool is_in_place(const Forward& forward) {
  return forward.initial_state != nullptr && forward.initial_state == forward.final_state;
}

compose::Stage first_way(compose::Stage stage) {
  stage.bind = [bind = std::move(stage.bind)](const Run& run, Launch& launch) {
    bind(run, launch);
    if (is_in_place(run.forward)) launch.grid[0] = 0;
  };
  return stage;
}

compose::Stage range_stage(const Problem& problem, std::size_t found) {
  compose::Stage stage;
  stage.name = "range";
  stage.file = "unit_beta/range.cu";
  stage.entry = "kda_unit_beta_range";
  stage.prelude = compose::prelude(problem::shape_of(problem), {});
  stage.threads = abi::unit_beta::threads;
  stage.bind = [problem, found](const Run& run, Launch& launch) {
    launch.grid[0] = abi::unit_beta::blocks;
    launch.set(abi::unit_beta::Args{.in = problem::inputs_of(problem, run.forward),
                                    .found = reinterpret_cast<unsigned*>(run.workspace + found),
                                    .again = is_in_place(run.forward) ? 1 : 0});
  };
  return stage;
}

// A kernel whose blocks end at once where nothing was found; `most` blocks take all in turn, or as
// many as there are.
template <class Args>
compose::Stage guarded(compose::Stage stage, std::size_t found, unsigned most) {
  stage.name += "_again";
  stage.prelude += "#define KDA_GUARDED 1\n";
  stage.bind = [found, most, bind = std::move(stage.bind)](const Run& run, Launch& launch) {
    bind(run, launch);
    abi::Guarded<Args> given;
    std::memcpy(&given.args, launch.args, sizeof given.args);
    given.found = reinterpret_cast<const unsigned*>(run.workspace + found);
    launch.set(given);
    if (most == 0 || launch.grid[0] == 0) return;
    const std::uint64_t blocks = std::uint64_t{launch.grid[0]} * launch.grid[1];
    launch.grid[0] = static_cast<unsigned>(std::min<std::uint64_t>(blocks, most));
    launch.grid[1] = 1;
  };
  return stage;
}

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::unit_beta::tunables);
  const Strategy& way = *kWays.at(static_cast<std::size_t>(tuning.by - 1));
  const Problem sure = promised(problem);
  if (Status status = way.applicable(sure, device); !status) {
    return Status(status.code(),
                  fmt::format("strategy unit_beta: by={}: {}", tuning.by, status.message()));
  }
  Result<compose::Recipe> first = way.compose(sure, device, way.defaults(sure, device));
  if (!first) return first.status();
  Result<compose::Recipe> again =
      chunk_wgmma.compose(problem, device, chunk_wgmma.defaults(problem, device));
  if (!again) return again.status();

  // Never both at once, so what they work in is the same memory.
  compose::Workspace workspace;
  workspace.take(std::max(first->workspace_bytes, again->workspace_bytes));
  const std::size_t found = workspace.take(abi::guard_words * sizeof(unsigned));
  compose::Recipe recipe;
  recipe.strategy = "unit_beta";
  recipe.tuning = values;
  recipe.workspace_bytes = workspace.bytes();
  for (compose::Stage& stage : first->stages) {
    recipe.stages.push_back(first_way(std::move(stage)));
  }
  recipe.stages.push_back(range_stage(problem, found));
  const auto resident = static_cast<unsigned>(std::max(device.multiprocessors, 1));
  recipe.stages.push_back(
      guarded<abi::chunk::PrepareArgs>(std::move(again->stages.at(0)), found, resident));
  recipe.stages.push_back(
      guarded<abi::chunk_wgmma::Args>(std::move(again->stages.at(1)), found, 0));
  return recipe;
}

double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::unit_beta::tunables);
  return kLookMicroseconds + way_microseconds(promised(problem), device,
                                              *kWays.at(static_cast<std::size_t>(tuning.by - 1)));
}

}  // namespace

const Strategy unit_beta = {
    "unit_beta",
    "as if beta, given without a sigmoid, were at most 1, and again where one was not (sm_90)",
    applicable,
    space,
    defaults,
    compose_recipe,
    estimate,
};

}  // namespace kda::strategy
