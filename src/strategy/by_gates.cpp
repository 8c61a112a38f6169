#include "strategy/by_gates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "abi/by_gates.h"
#include "abi/factors.h"
#include "abi/guard.h"
#include "abi/segments.h"
#include "compose/prelude.hpp"
#include "compose/workspace.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/fused_carried.hpp"
#include "strategy/gates.hpp"
#include "strategy/guarded.hpp"
#include "strategy/kept_states.hpp"
#include "strategy/lengths.hpp"
#include "strategy/prepared_by.hpp"
#include "strategy/segments_at_once.hpp"
#include "strategy/segments_cost.hpp"
#include "strategy/ways.hpp"

namespace kda::strategy {
namespace {

using abi::Guard;
using abi::by_gates::Tuning;
using compose::Launch;
using compose::Run;

// What the look and the first way's kernel take in other runs: on an H200 3 to 9 us before
// segments, 8 to 14 before chains beside prepare, of 24 heads 14, 22 and 64 us of 148, 281 and 1100
// (tools/results/log/by_gates.md).
double look_microseconds(int otherwise, double other_microseconds) {
  return otherwise == 3 ? 7.0 : 8.0 + 0.035 * other_microseconds;
}

// Where gates forget: what the other way takes of what it is expected to, as `segments` knows gates
// that do, and its kernels, the look besides, where they find nothing to do.  Where `segments`
// prepares by a block a chunk these may look only to end, 16 thousand of 65536 tokens and 8 heads
// 45 us.
struct Forgetting {
  double share = 1.0;
  double idle = 8.0;  // microseconds
};
Forgetting where_gates_forget(const Problem& problem, const device::Device& device, int otherwise) {
  if (otherwise != 3) return {};
  const auto tuning = tunable::tuning_of<abi::segments::Tuning>(segments.defaults(problem, device),
                                                                abi::segments::tunables);
  Forgetting there;
  const double share = segments_cost::forgetting_share(problem, tuning);
  there.share = share / (1 - forget_share(problem) * (1 - share));
  const double chunks = static_cast<double>(problem.max_tokens) / abi::factors::chunk;
  if (!at_once(tuning) && chunks / problem.max_sequences >= 1024) {
    there.idle += 2.7e-3 * chunks * problem.value_heads;
  }
  return there;
}

// What of its own a problem that fused serves has in the way; empty: nothing.
std::string why_not(const Problem& problem, const device::Device& device) {
  if (problem.state_pool) return "state_pool is true; states by themselves are served";
  if (problem.varlen) return "varlen is true; dense sequences are served";
  std::string why = why_not_by_teams(problem);
  if (!why.empty() || most_segments(problem, device) >= 2) return why;
  return fmt::format(
      "max_sequences is {} with HV={} and V={}, of whose parts {} has a pair of blocks for fewer "
      "than two segments each; fewer sequences or heads are served",
      problem.max_sequences, problem.value_heads, problem.value_dim, device.name);
}

Status applicable(const Problem& problem, const device::Device& device) {
  if (Status status = check_kept_states("by_gates", problem); !status) return status;
  if (Status status = fused.applicable(problem, device); !status) {
    return {status.code(), "strategy by_gates: as " + status.message()};
  }
  if (const std::string why = why_not(problem, device); !why.empty()) {
    return {Code::unsupported, fmt::format("strategy by_gates: {} (the problem is {})", why,
                                           problem::to_text(problem))};
  }
  return chunk_wgmma.applicable(problem, device);
}

tunable::Space space() { return tunable::space_of(abi::by_gates::tunables); }

double way_microseconds(int number, const Problem& problem, const device::Device& device) {
  return default_microseconds(way(number), problem, problem, device);
}

double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values);

// As many segments as have a pair of blocks each, and are longer than their leads.
tunable::Values defaults(const Problem& problem, const device::Device& device) {
  const int most = most_segments(problem, device);
  const double chunks = mean_length(problem) / abi::factors::chunk;
  Tuning tuning;
  for (const int segments : abi::by_gates::tunables[0].values) {
    const bool serves = segments > 0 && segments <= most;
    if (serves && chunks >= segments * (abi::by_gates::lead_chunks + 1)) tuning.segments = segments;
  }
  tuning.otherwise =
      way_microseconds(2, problem, device) <= way_microseconds(3, problem, device) ? 2 : 3;
  tunable::Values values = tunable::values_of(tuning, abi::by_gates::tunables);
  if (!serves_carried(problem)) return values;
  double least = std::numeric_limits<double>::infinity();
  for (const int segments : abi::by_gates::tunables[0].values) {
    if (segments <= 0 || segments > most) continue;
    const double microseconds = fused_carried_microseconds(problem, device, segments);
    if (microseconds >= least) continue;
    least = microseconds;
    tuning.segments = segments;
  }
  tuning.carries = 2;
  tunable::Values carried = tunable::values_of(tuning, abi::by_gates::tunables);
  if (std::isinf(least)) return values;
  // Within 5% the estimates do not tell: 32 heads of 8192 tokens, of which that is all the
  // difference on an H100, take an H200 177 and 257 us carried and 166 and 210 by leads (strong and
  // weak gates).
  constexpr double kSure = 0.95;
  const bool carries =
      estimate(problem, device, carried) < kSure * estimate(problem, device, values);
  return carries ? carried : values;
}

// Final states that lie over initial ones: a segment may end before another begins.
bool lies_over(const Forward& forward) {
  return forward.initial_state != nullptr && forward.initial_state == forward.final_state;
}

compose::Stage look_stage(const Problem& problem, const Tuning& tuning, std::size_t found) {
  compose::Stage stage;
  stage.name = "look";
  stage.file = "by_gates/look.cu";
  stage.entry = "kda_by_gates_look";
  stage.prelude = compose::prelude(problem::shape_of(problem), {});
  stage.threads = static_cast<unsigned>(abi::by_gates::threads(problem.key_dim));
  stage.overlaps_previous = true;
  stage.bind = [problem, tuning, found](const Run& run, Launch& launch) {
    launch.grid[0] = abi::by_gates::blocks;
    // Of a run that keeps all nothing goes the other way later, and wants what it began from.
    const bool other = lies_over(run.forward) &&
                       !(tuning.carries > 1 && keeps_all(problem, tuning.segments, run.forward));
    launch.set(abi::by_gates::LookArgs{.in = problem::inputs_of(problem, run.forward),
                                       .found = reinterpret_cast<unsigned*>(run.workspace + found),
                                       .segments = tuning.segments,
                                       .other = other,
                                       .carries = tuning.carries > 1});
  };
  return stage;
}

// A kernel whose blocks end at once in runs that are the other way's.
Result<compose::Stage> guarded(compose::Stage stage, Guard guard, std::size_t found) {
  const auto give = [found]<class Args>(compose::Stage own) {
    return with_words<Args>(std::move(own), found, [](const Run&, Launch&, abi::Guarded<Args>&) {});
  };
  const std::string_view name = guard == Guard::unfound ? "forgetting" : "otherwise";
  return with_guard(std::move(stage), "by_gates", guard, name, give);
}

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::by_gates::tunables);
  if (const int most = most_segments(problem, device); tuning.segments > most) {
    return Status(
        Code::unsupported,
        fmt::format("strategy by_gates: segments={}, at most {} have a pair of blocks each on {}",
                    tuning.segments, most, device.name));
  }
  if (tuning.carries > 1 && !serves_carried(problem)) {
    return Status(Code::unsupported,
                  fmt::format("strategy by_gates: carries=2 with state_type = {} in [K, V], for "
                              "which registers have no room; carries=1 does",
                              abi::dtypes[static_cast<int>(problem.state_type)].name));
  }
  Result<compose::Recipe> first = tuning.carries > 1
                                      ? compose_fused_carried(problem, device, tuning.segments)
                                      : compose_fused_segments(problem, device, tuning.segments);
  if (!first) return first.status();
  if (tuning.carries > 1 && keeps_all(problem, tuning.segments)) {
    first->strategy = "by_gates";
    first->tuning = values;
    return first;
  }
  const Strategy& other = way(tuning.otherwise);
  if (Status status = other.applicable(problem, device); !status) {
    return Status(status.code(), fmt::format("strategy by_gates: otherwise={}: {}",
                                             tuning.otherwise, status.message()));
  }
  Result<compose::Recipe> second = other.compose(problem, device, other.defaults(problem, device));
  if (!second) return second.status();

  // Never both at once, so what they work in is the same memory.
  compose::Workspace workspace;
  workspace.take(std::max(first->workspace_bytes, second->workspace_bytes));
  const std::size_t found = workspace.take(abi::guard_words * sizeof(unsigned));
  compose::Recipe recipe;
  recipe.strategy = "by_gates";
  recipe.tuning = values;
  recipe.workspace_bytes = workspace.bytes();
  recipe.stages.push_back(look_stage(problem, tuning, found));
  const auto add = [&](std::vector<compose::Stage>& stages, Guard guard) -> Status {
    for (compose::Stage& each : stages) {
      Result<compose::Stage> stage = guarded(std::move(each), guard, found);
      if (!stage) return stage.status();
      recipe.stages.push_back(*std::move(stage));
    }
    return {};
  };
  if (Status status = add(first->stages, Guard::unfound); !status) return status;
  if (Status status = add(second->stages, Guard::found); !status) return status;
  return recipe;
}

// The other way's estimate, and what is expected to be lost, or spared, beside it.
double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::by_gates::tunables);
  const double otherwise = way_microseconds(tuning.otherwise, problem, device);
  if (!std::isfinite(otherwise)) return otherwise;
  if (tuning.carries > 1) {
    return fused_carried_microseconds(problem, device, tuning.segments) +
           (keeps_all(problem, tuning.segments) ? 0.0 : look_microseconds(3, otherwise));
  }
  const Forgetting there = where_gates_forget(problem, device, tuning.otherwise);
  const double forgetting =
      fused_segments_microseconds(problem, device, tuning.segments) + there.idle;
  const double spared = there.share * otherwise - forgetting;
  const double forget = forget_share(problem);
  return otherwise + (1 - forget) * look_microseconds(tuning.otherwise, otherwise) -
         forget * spared;
}

}  // namespace

bool prefers_by_gates(const Problem& problem, const device::Device& device,
                      const Strategy& measured, const tunable::Values& tuning) {
  if (!by_gates.applicable(problem, device)) return false;
  const tunable::Values values = defaults(problem, device);
  if (&measured != &way(tunable::tuning_of<Tuning>(values, abi::by_gates::tunables).otherwise)) {
    return false;
  }
  // A tuning that was measured of another size may be worse than the default here.
  const double without = std::min(measured.estimate(problem, device, tuning),
                                  default_microseconds(measured, problem, problem, device));
  return estimate(problem, device, values) < without;
}

const Strategy by_gates = {
    "by_gates",
    "few long sequences in segments, alone where gates forget, or states carried into them (sm_90)",
    applicable,
    space,
    defaults,
    compose_recipe,
    estimate,
    true,
};

}  // namespace kda::strategy
