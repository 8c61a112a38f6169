#include "strategy/unit_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "abi/chunk_wgmma.h"
#include "abi/factors.h"
#include "abi/guard.h"
#include "abi/unit_steps.h"
#include "compose/prelude.hpp"
#include "compose/workspace.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/by_lengths.hpp"
#include "strategy/chunk_factors.hpp"
#include "strategy/chunk_wgmma.hpp"
#include "strategy/expected.hpp"
#include "strategy/guarded.hpp"
#include "strategy/kept_states.hpp"
#include "strategy/lengths.hpp"
#include "strategy/prepared_by.hpp"
#include "strategy/recurrent.hpp"
#include "strategy/ways.hpp"

namespace kda::strategy {
namespace {

using abi::unit_steps::Tuning;
using compose::Launch;
using compose::Run;

// By Tuning::by.
constexpr int kBoth = 4;
const Strategy& first_way_by(int by) { return by == kBoth ? by_lengths : way(by); }

// What a look takes, and two kernels that then have nothing to do: within the noise of 375 us on an
// H100.  Taken for more, as a second way has its price: a workspace, and the host's time for its
// kernels.
constexpr double kLookMicroseconds = 8.0;

// What a kernel before both ways takes by itself: in a pool 64, 16 and 8 heads take 4, 1 and 5 us
// more (tools/results/h200/unit_steps.md).
constexpr double kKeepMicroseconds = 3.0;

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
  if (const std::string why = why_not_plainly(promised(problem), device, abi::factors::chunk);
      !why.empty()) {
    return {Code::unsupported,
            fmt::format("strategy unit_steps: nothing is faster for unit steps here: {} (the "
                        "problem is {})",
                        why, problem::to_text(problem))};
  }
  return chunk_wgmma.applicable(problem, device);
}

tunable::Space space() { return tunable::space_of(abi::unit_steps::tunables); }

// As far as the way knows of it: by_lengths is for packs that do not say how their lengths differ.
Problem planned_by(const Strategy& way, const Problem& sure) {
  Problem planned = sure;
  if (&way == &by_lengths) planned.mixed_lengths = false;
  return planned;
}

// Expected microseconds of the first way; infinite where it does not serve.
double way_microseconds(const Problem& sure, const device::Device& device, const Strategy& way) {
  return default_microseconds(way, planned_by(way, sure), sure, device);
}

tunable::Values defaults(const Problem& problem, const device::Device& device) {
  const Problem sure = promised(problem);
  Tuning tuning{.by = 2};
  double least = std::numeric_limits<double>::infinity();
  for (int by = 1; by <= kBoth; ++by) {
    const Strategy& first = first_way_by(by);
    if (!first.applicable(sure, device)) continue;
    // As the planner would choose, packs that may be mixed by both.
    const double us = expected_microseconds(first, sure, device, first.defaults(sure, device));
    if (us >= least) continue;
    least = us;
    tuning.by = by;
  }
  return tunable::values_of(tuning, abi::unit_steps::tunables);
}

// To begin again a run needs its initial states as they were.  In plain tensors final states may
// lie over all of them, and go elsewhere until it is known whether it does; else they lie apart
// (problem/check.cpp).
bool may_lie_over(const Problem& problem) {
  return !problem.state_pool && problem.initial_state && problem.final_state;
}
bool lies_over(const Forward& forward) { return forward.initial_state == forward.final_state; }

// In a pool any slot that is written may be one that a sequence begins from, so all those are kept.
bool keeps_states(const Problem& problem) {
  return problem.state_pool && problem.initial_state && problem.final_state;
}

// Up to how many tokens a sequence is served once, as the first way leaves it to a stage of its own
// whatever the others are; 1: none.  That stage serves any step, so those need neither be served
// again nor be kept; but where final states may lie over initial ones all are left apart.
int served_once(const Problem& problem, const device::Device& device, const Strategy& first) {
  if (may_lie_over(problem)) return 1;
  const Problem sure = planned_by(first, promised(problem));
  if (&first == &by_lengths) return may_have_short(sure) ? kShortTokens : 1;
  for (const auto& [name, value] : first.defaults(sure, device)) {
    if (name == "short_tokens") return value;
  }
  return 1;
}

// Of one sequence.
std::size_t state_bytes(const Problem& problem) {
  return static_cast<std::size_t>(problem::slot_elements(problem) *
                                  abi::bytes_of(problem::shape_of(problem).state_type));
}
// Of the most that a run has.
std::size_t states_bytes(const Problem& problem) {
  return state_bytes(problem) * static_cast<std::size_t>(problem.max_sequences);
}

// Where in the workspace a second way finds what it wants to know.
struct Places {
  std::size_t found;  // words of what looked
  std::size_t apart;  // final states that would lie over initial ones
  std::size_t kept;   // initial states of a pool
};

// Of the strategy's own kernels.
compose::Stage own_stage(const char* name, const Problem& problem, int threads) {
  compose::Stage stage;
  stage.name = name;
  stage.file = fmt::format("unit_steps/{}.cu", name);
  stage.entry = fmt::format("kda_unit_steps_{}", name);
  stage.prelude = compose::prelude(problem::shape_of(problem), {});
  stage.threads = static_cast<unsigned>(threads);
  return stage;
}

// Not of sequences of up to short_tokens tokens (1: of all).
compose::Stage keep_stage(const Problem& problem, const device::Device& device, std::size_t kept,
                          int short_tokens) {
  compose::Stage stage = own_stage("keep", problem, abi::unit_steps::keep_threads);
  // Eight blocks have all threads of a multiprocessor.
  const auto most = std::uint64_t{8} * static_cast<unsigned>(std::max(device.multiprocessors, 1));
  stage.bind = [problem, most, kept, short_tokens](const Run& run, Launch& launch) {
    const std::uint64_t parts = std::uint64_t{abi::unit_steps::keep_parts} *
                                static_cast<unsigned>(problem.value_heads) *
                                static_cast<unsigned>(run.forward.sequences);
    launch.grid[0] = static_cast<unsigned>(std::min(parts, most));
    launch.set(abi::unit_steps::KeepArgs{.in = problem::inputs_of(problem, run.forward),
                                         .out = problem::outputs_of(problem, run.forward),
                                         .kept = run.workspace + kept,
                                         .short_tokens = short_tokens});
  };
  return stage;
}

// Final states that would lie over initial ones go to `apart` in the workspace.
compose::Stage first_way(compose::Stage stage, std::size_t apart) {
  stage.bind = [apart, bind = std::move(stage.bind)](const Run& run, Launch& launch) {
    if (!lies_over(run.forward)) {
      bind(run, launch);
      return;
    }
    Forward forward = run.forward;
    forward.final_state = run.workspace + apart;
    bind({forward, run.workspace}, launch);
  };
  return stage;
}

compose::Stage look_stage(const Problem& problem, std::size_t found, int short_tokens) {
  compose::Stage stage = own_stage("look", problem, abi::unit_steps::threads);
  stage.bind = [problem, found, short_tokens](const Run& run, Launch& launch) {
    launch.grid[0] = abi::unit_steps::blocks;
    launch.set(abi::unit_steps::Args{.in = problem::inputs_of(problem, run.forward),
                                     .out = problem::outputs_of(problem, run.forward),
                                     .found = reinterpret_cast<unsigned*>(run.workspace + found),
                                     .short_tokens = short_tokens});
  };
  return stage;
}

// A kernel whose blocks end at once where nothing was found.
template <class Args, class Then>
compose::Stage guarded(compose::Stage stage, std::size_t found, Then then) {
  stage.name += "_again";
  stage.prelude += "#define KDA_GUARDED 1\n";
  return with_words<Args>(std::move(stage), found, then);
}

// Its blocks take all chunks in turn; where nothing was found they move what a run in place has
// left apart.
compose::Stage prepare_again(compose::Stage stage, const Problem& problem, const Places& places,
                             unsigned most) {
  using Given = abi::Guarded<abi::chunk::PrepareArgs>;
  const auto then = [may_lie_over = may_lie_over(problem), bytes = state_bytes(problem), most,
                     apart = places.apart](const Run& run, Launch& launch, Given& given) {
    if (launch.grid[0] == 0) return;
    const std::uint64_t blocks = std::uint64_t{launch.grid[0]} * launch.grid[1];
    launch.grid[0] = static_cast<unsigned>(std::min<std::uint64_t>(blocks, most));
    launch.grid[1] = 1;
    if (!may_lie_over || !lies_over(run.forward)) return;
    given.instead = {.from = run.workspace + apart,
                     .to = run.forward.final_state,
                     .bytes = static_cast<long long>(bytes) * run.forward.sequences};
  };
  return guarded<abi::chunk::PrepareArgs>(std::move(stage), places.found, then);
}

compose::Stage recurrence_again(compose::Stage stage, const Problem& problem,
                                const Places& places) {
  using Given = abi::Guarded<abi::chunk_wgmma::Args>;
  const auto then = [keeps = keeps_states(problem), kept = places.kept](const Run& run, Launch&,
                                                                        Given& given) {
    if (keeps) given.kept = run.workspace + kept;
  };
  return guarded<abi::chunk_wgmma::Args>(std::move(stage), places.found, then);
}

// chunk_wgmma's two stages for any step, which leave out sequences of up to short_tokens tokens.
Result<compose::Recipe> any_steps(const Problem& problem, const device::Device& device,
                                  int short_tokens) {
  tunable::Values values = chunk_wgmma.defaults(problem, device);
  for (auto& [name, value] : values) {
    if (name == "short_tokens") value = short_tokens;
    if (name == "short_by") value = 1;
  }
  return chunk_wgmma.compose(problem, device, values);
}

// A stage of the first way; that of sequences which are served once for any step.
Result<compose::Stage> short_once(compose::Stage stage, const Problem& problem,
                                  const device::Device& device, int short_tokens) {
  if (short_tokens <= 1 || stage.name != "short") return stage;
  return short_stage(problem, device, short_tokens, stage.file == "recurrent/short.cu");
}

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::unit_steps::tunables);
  const Strategy& first_by = first_way_by(tuning.by);
  const Problem sure = promised(problem);
  if (Status status = first_by.applicable(sure, device); !status) {
    return Status(status.code(),
                  fmt::format("strategy unit_steps: by={}: {}", tuning.by, status.message()));
  }
  Result<compose::Recipe> first = first_by.compose(sure, device, first_by.defaults(sure, device));
  if (!first) return first.status();
  const int short_tokens = served_once(problem, device, first_by);
  Result<compose::Recipe> again = any_steps(problem, device, short_tokens);
  if (!again) return again.status();

  // Never both at once, so what they work in is the same memory.
  compose::Workspace workspace;
  workspace.take(std::max(first->workspace_bytes, again->workspace_bytes));
  const Places places = {.found = workspace.take(abi::guard_words * sizeof(unsigned)),
                         .apart = workspace.take(may_lie_over(problem) ? states_bytes(problem) : 0),
                         .kept = workspace.take(keeps_states(problem) ? states_bytes(problem) : 0)};
  compose::Recipe recipe;
  recipe.strategy = "unit_steps";
  recipe.tuning = values;
  recipe.workspace_bytes = workspace.bytes();
  if (keeps_states(problem)) {
    recipe.stages.push_back(keep_stage(problem, device, places.kept, short_tokens));
  }
  for (compose::Stage& each : first->stages) {
    Result<compose::Stage> stage = short_once(std::move(each), problem, device, short_tokens);
    if (!stage) return stage.status();
    recipe.stages.push_back(may_lie_over(problem) ? first_way(*std::move(stage), places.apart)
                                                  : *std::move(stage));
  }
  recipe.stages.push_back(look_stage(problem, places.found, short_tokens));
  const auto resident = static_cast<unsigned>(std::max(device.multiprocessors, 1));
  recipe.stages.push_back(prepare_again(std::move(again->stages.at(0)), problem, places, resident));
  recipe.stages.push_back(recurrence_again(std::move(again->stages.at(1)), problem, places));
  return recipe;
}

double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::unit_steps::tunables);
  const Strategy& first_by = first_way_by(tuning.by);
  const double first = way_microseconds(promised(problem), device, first_by);
  if (!std::isfinite(first)) return first;
  // States that are kept or moved are read and written once more; of a mixed pack one sequence's.
  const bool of_one = is_mixed(problem) && served_once(problem, device, first_by) > 1;
  const double moved =
      may_lie_over(problem) || keeps_states(problem)
          ? 2e6 * static_cast<double>(of_one ? state_bytes(problem) : states_bytes(problem)) /
                std::max(device.memory_bandwidth, 1e9)
          : 0.0;
  return first + moved + kLookMicroseconds + (keeps_states(problem) ? kKeepMicroseconds : 0.0);
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
