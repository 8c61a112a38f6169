#include "strategy/unit_steps.hpp"

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
#include "abi/unit_steps.h"
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

using abi::unit_steps::Tuning;
using compose::Launch;
using compose::Run;

// By Tuning::by, from 1 on.
constexpr std::array<const Strategy*, 3> kWays = {&fused, &chunk_wgmma, &segments};

// What a look takes, and two kernels that then have nothing to do: within the noise of 375 us on an
// H100.  Taken for more, as a second way has its price: a workspace, and the host's time for its
// kernels.
constexpr double kLookMicroseconds = 8.0;

Problem promised(const Problem& problem) {
  Problem sure = problem;
  sure.beta_at_most_one = !problem.beta_is_logit;
  sure.qk_normalized = !problem.l2norm_qk;
  return sure;
}

Status applicable(const Problem& problem, const device::Device& device) {
  if (Status status = check_kept_states("unit_steps", problem); !status) return status;
  if (problem == promised(problem)) {
    return {
        Code::unsupported,
        "strategy unit_steps: it is for a beta without a sigmoid or q and k without a norm, and "
        "no promise of them (beta_is_logit and beta_at_most_one = false, or l2norm_qk and "
        "qk_normalized)"};
  }
  if (problem.state_pool || is_mixed(problem)) {
    return {Code::unsupported,
            "strategy unit_steps: no state pools or mixed_lengths, as a run may begin again"};
  }
  if (!prepares_by_group(promised(problem), device, abi::factors::chunk)) {
    return {Code::unsupported,
            fmt::format("strategy unit_steps: nothing is faster for unit steps but on sm_90, with "
                        "bf16, key_dim 64 or 128, lower_bound >= -100, no neg_eigval and no w and "
                        "u (the problem is {})",
                        problem::to_text(problem))};
  }
  return chunk_wgmma.applicable(problem, device);
}

tunable::Space space() { return tunable::space_of(abi::unit_steps::tunables); }

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
  return tunable::values_of(tuning, abi::unit_steps::tunables);
}

// Whether a run's final states lie where its initial ones do, which are needed to begin again; else
// they lie apart (problem/check.cpp).
bool is_in_place(const Forward& forward) {
  return forward.initial_state != nullptr && forward.initial_state == forward.final_state;
}

// Of one sequence.
std::size_t state_bytes(const Problem& problem) {
  return static_cast<std::size_t>(problem::slot_elements(problem) *
                                  abi::bytes_of(problem::shape_of(problem).state_type));
}

// Final states that would lie over initial ones go to `apart` in the workspace.
compose::Stage first_way(compose::Stage stage, std::size_t apart) {
  stage.bind = [apart, bind = std::move(stage.bind)](const Run& run, Launch& launch) {
    if (!is_in_place(run.forward)) {
      bind(run, launch);
      return;
    }
    Forward forward = run.forward;
    forward.final_state = run.workspace + apart;
    bind({forward, run.workspace}, launch);
  };
  return stage;
}

compose::Stage look_stage(const Problem& problem, std::size_t found) {
  compose::Stage stage;
  stage.name = "look";
  stage.file = "unit_steps/look.cu";
  stage.entry = "kda_unit_steps_look";
  stage.prelude = compose::prelude(problem::shape_of(problem), {});
  stage.threads = abi::unit_steps::threads;
  stage.bind = [problem, found](const Run& run, Launch& launch) {
    launch.grid[0] = abi::unit_steps::blocks;
    launch.set(abi::unit_steps::Args{.in = problem::inputs_of(problem, run.forward),
                                     .o = problem::outputs_of(problem, run.forward).o,
                                     .found = reinterpret_cast<unsigned*>(run.workspace + found)});
  };
  return stage;
}

// Where in the workspace a second way finds what it wants to know.
struct Places {
  std::size_t found;  // words of what looked
  std::size_t apart;  // final states of a run in place
};

// A kernel whose blocks end at once where nothing was found.
template <class Args, class Then>
compose::Stage guarded(compose::Stage stage, std::size_t found, Then then) {
  stage.name += "_again";
  stage.prelude += "#define KDA_GUARDED 1\n";
  stage.bind = [found, then, bind = std::move(stage.bind)](const Run& run, Launch& launch) {
    bind(run, launch);
    abi::Guarded<Args> given;
    std::memcpy(&given.args, launch.args, sizeof given.args);
    given.found = reinterpret_cast<const unsigned*>(run.workspace + found);
    then(run, launch, given.instead);
    launch.set(given);
  };
  return stage;
}

// Its blocks take all chunks in turn; where nothing was found they move what a run in place has
// left apart.
compose::Stage prepare_again(compose::Stage stage, const Problem& problem, const Places& places,
                             unsigned most) {
  const auto then = [most, apart = places.apart, bytes = state_bytes(problem)](
                        const Run& run, Launch& launch, abi::Move& instead) {
    if (launch.grid[0] == 0) return;
    const std::uint64_t blocks = std::uint64_t{launch.grid[0]} * launch.grid[1];
    launch.grid[0] = static_cast<unsigned>(std::min<std::uint64_t>(blocks, most));
    launch.grid[1] = 1;
    if (!is_in_place(run.forward)) return;
    instead = {.from = run.workspace + apart,
               .to = run.forward.final_state,
               .bytes = static_cast<long long>(bytes) * run.forward.sequences};
  };
  return guarded<abi::chunk::PrepareArgs>(std::move(stage), places.found, then);
}

compose::Stage recurrence_again(compose::Stage stage, const Places& places) {
  return guarded<abi::chunk_wgmma::Args>(std::move(stage), places.found,
                                         [](const Run&, Launch&, abi::Move&) {});
}

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::unit_steps::tunables);
  const Strategy& way = *kWays.at(static_cast<std::size_t>(tuning.by - 1));
  const Problem sure = promised(problem);
  if (Status status = way.applicable(sure, device); !status) {
    return Status(status.code(),
                  fmt::format("strategy unit_steps: by={}: {}", tuning.by, status.message()));
  }
  Result<compose::Recipe> first = way.compose(sure, device, way.defaults(sure, device));
  if (!first) return first.status();
  Result<compose::Recipe> again =
      chunk_wgmma.compose(problem, device, chunk_wgmma.defaults(problem, device));
  if (!again) return again.status();

  // Never both at once, so what they work in is the same memory.
  compose::Workspace workspace;
  workspace.take(std::max(first->workspace_bytes, again->workspace_bytes));
  const bool may_be_in_place = problem.initial_state && problem.final_state;
  const Places places = {
      .found = workspace.take(abi::guard_words * sizeof(unsigned)),
      .apart = workspace.take(may_be_in_place ? state_bytes(problem) *
                                                    static_cast<std::size_t>(problem.max_sequences)
                                              : 0)};
  compose::Recipe recipe;
  recipe.strategy = "unit_steps";
  recipe.tuning = values;
  recipe.workspace_bytes = workspace.bytes();
  for (compose::Stage& stage : first->stages) {
    recipe.stages.push_back(first_way(std::move(stage), places.apart));
  }
  recipe.stages.push_back(look_stage(problem, places.found));
  const auto resident = static_cast<unsigned>(std::max(device.multiprocessors, 1));
  recipe.stages.push_back(prepare_again(std::move(again->stages.at(0)), problem, places, resident));
  recipe.stages.push_back(recurrence_again(std::move(again->stages.at(1)), places));
  return recipe;
}

double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::unit_steps::tunables);
  return kLookMicroseconds + way_microseconds(promised(problem), device,
                                              *kWays.at(static_cast<std::size_t>(tuning.by - 1)));
}

}  // namespace

const Strategy unit_steps = {
    "unit_steps",
    "as if beta without a sigmoid and keys without a norm were at most 1, again where not (sm_90)",
    applicable,
    space,
    defaults,
    compose_recipe,
    estimate,
};

}  // namespace kda::strategy
