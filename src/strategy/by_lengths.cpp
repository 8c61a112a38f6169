#include "strategy/by_lengths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "abi/by_lengths.h"
#include "abi/factors.h"
#include "abi/guard.h"
#include "problem/problem.hpp"
#include "strategy/chunk_factors.hpp"
#include "strategy/guarded.hpp"
#include "strategy/kept_states.hpp"
#include "strategy/lengths.hpp"
#include "strategy/prepared_by.hpp"
#include "strategy/ways.hpp"

namespace kda::strategy {
namespace {

using abi::Guard;
using abi::by_lengths::Tuning;
using compose::Launch;
using compose::Run;

// What the kernels of the other way take, which find nothing to do: on an H200 4 to 11 us beside
// `fused`, which lets them begin at its start, but 20 to 25 where they are `fused`, too, and 7 to 9
// beside chains (tools/results/log/by_lengths.md).
double idle_microseconds(const Tuning& tuning) {
  if (tuning.alike == 1 && tuning.unlike == 1) return 20.0;
  return tuning.alike == 1 ? 7.5 : 10.0;
}

// Each block looks at the lengths of all sequences.  Of many (may_have_short) both ways leave the
// short ones to one stage, and have no more blocks before it than there are multiprocessors.
constexpr int kMostSequences = 1024;

// The pack as one of sequences of the same length, as dense ones are.
Problem alike(const Problem& problem) {
  Problem same = problem;
  same.varlen = false;
  return same;
}

// And as one that says that a sequence has most of the tokens.
Problem unlike(const Problem& problem) {
  Problem mixed = problem;
  mixed.mixed_lengths = true;
  return mixed;
}

Status applicable(const Problem& problem, const device::Device& device) {
  if (Status status = check_kept_states("by_lengths", problem); !status) return status;
  if (!problem.varlen || problem.max_sequences < 2 || problem.max_sequences > kMostSequences) {
    return {Code::unsupported,
            fmt::format("strategy by_lengths: it is for packs of 2 to {} sequences (varlen = {}, "
                        "max_sequences = {})",
                        kMostSequences, problem.varlen, problem.max_sequences)};
  }
  if (problem.mixed_lengths) {
    return {Code::unsupported,
            "strategy by_lengths: mixed_lengths says already that one sequence has most tokens"};
  }
  if (const std::string why = why_not_plainly(problem, device, abi::factors::chunk); !why.empty()) {
    return {Code::unsupported, fmt::format("strategy by_lengths: {} (the problem is {})", why,
                                           problem::to_text(problem))};
  }
  if (Status status = check_checkpoints("by_lengths", problem, abi::factors::chunk); !status) {
    return status;
  }
  if (may_have_short(problem)) {
    if (Status status = fused.applicable(problem, device); !status) {
      return {status.code(),
              fmt::format("strategy by_lengths: of more than 32 sequences: {}", status.message())};
    }
    if (!short_and_long_at_once(problem, device)) {
      return {
          Code::unsupported,
          fmt::format("strategy by_lengths: HV={} V={} in more than 32 sequences: chains of one "
                      "would leave too little of {} to prepare beside them",
                      problem.value_heads, problem.value_dim, device.name)};
    }
  }
  return chunk_wgmma.applicable(problem, device);
}

tunable::Space space() { return tunable::space_of(abi::by_lengths::tunables); }

// A way's tuning for such a problem.
tunable::Values tuning_of_way(const Strategy& own, const Problem& problem,
                              const device::Device& device) {
  if (&own == &chunk_wgmma && is_mixed(problem) && has_many(problem)) {
    if (const auto at_once = short_and_long_at_once(problem, device)) return *at_once;
  }
  return own.defaults(problem, device);
}

// Of a way with the tuning that it has for `planned`; infinite where it does not serve.
double way_microseconds(const Strategy& way, const Problem& planned, const Problem& problem,
                        const device::Device& device) {
  if (!way.applicable(planned, device)) return std::numeric_limits<double>::infinity();
  return way.estimate(problem, device, tuning_of_way(way, planned, device));
}

// The way that is expected to be the fastest.
int fastest(const Problem& problem, const device::Device& device) {
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int number = 1; number <= static_cast<int>(kWays.size()); ++number) {
    const double us = way_microseconds(way(number), problem, problem, device);
    if (best != 0 && us >= least) continue;
    least = us;
    best = number;
  }
  return best;
}

tunable::Values defaults(const Problem& problem, const device::Device& device) {
  if (may_have_short(problem)) return tunable::values_of(Tuning{}, abi::by_lengths::tunables);
  return tunable::values_of(
      Tuning{.alike = fastest(alike(problem), device), .unlike = fastest(unlike(problem), device)},
      abi::by_lengths::tunables);
}

// What both ways take of a pack of one long sequence.
struct OfLong {
  double alike, unlike;  // microseconds
};
OfLong of_long(const Problem& problem, const device::Device& device, const Tuning& tuning) {
  const Problem one = unlike(problem);
  return {way_microseconds(way(tuning.alike), problem, one, device),
          way_microseconds(way(tuning.unlike), one, one, device)};
}

// A kernel whose blocks end at once in runs that are the other way's.
template <class Args>
compose::Stage at_work(compose::Stage stage, double share) {
  stage.bind = [share, bind = std::move(stage.bind)](const Run& run, Launch& launch) {
    bind(run, launch);
    abi::OfLengths<Args> given;
    std::memcpy(&given.args, launch.args, sizeof given.args);
    given.most = static_cast<long long>(share * static_cast<double>(run.forward.tokens));
    launch.set(given);
  };
  return stage;
}

Result<compose::Stage> guarded(compose::Stage stage, Guard guard, double share) {
  const auto give = [share]<class Args>(compose::Stage own) {
    return at_work<Args>(std::move(own), share);
  };
  return with_guard(std::move(stage), "by_lengths", guard,
                    guard == Guard::alike ? "alike" : "unlike", give);
}

Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::by_lengths::tunables);
  compose::Recipe recipe;
  recipe.strategy = "by_lengths";
  recipe.tuning = values;
  const bool shares = may_have_short(problem);
  if (shares && (tuning.alike != 1 || tuning.unlike != 2)) {
    return Status(Code::unsupported,
                  fmt::format("strategy by_lengths: alike={} unlike={} with max_sequences = {}: of "
                              "more than 32 sequences alike=1 unlike=2 serves",
                              tuning.alike, tuning.unlike, problem.max_sequences));
  }
  const double share = longest_alike(problem, device, values);
  std::optional<compose::Stage> last;  // for short sequences, whichever way the others go
  const auto add = [&](const char* name, int number, const Problem& of, Guard guard) -> Status {
    const Strategy& own = way(number);
    Status status = own.applicable(of, device);
    if (status) {
      Result<compose::Recipe> stages = own.compose(of, device, tuning_of_way(own, of, device));
      if (stages) {
        for (compose::Stage& stage : stages->stages) {
          if (shares && stage.file.starts_with(kShortFolder)) {
            last = std::move(stage);  // of the way for packs that have short ones
            continue;
          }
          Result<compose::Stage> own_stage = guarded(std::move(stage), guard, share);
          if (!own_stage) return own_stage.status();
          recipe.stages.push_back(*std::move(own_stage));
        }
        // Never both at once, so what they work in is the same memory.
        recipe.workspace_bytes = std::max(recipe.workspace_bytes, stages->workspace_bytes);
        return {};
      }
      status = stages.status();
    }
    return {status.code(),
            fmt::format("strategy by_lengths: {}={}: {}", name, number, status.message())};
  };
  if (Status status = add("alike", tuning.alike, problem, Guard::alike); !status) return status;
  if (Status status = add("unlike", tuning.unlike, unlike(problem), Guard::unlike); !status) {
    return status;
  }
  if (last) recipe.stages.push_back(*std::move(last));
  return recipe;
}

// As long as the way that such a pack goes, and what the other one's kernels take.
double estimate(const Problem& problem, const device::Device& device,
                const tunable::Values& values) {
  const Tuning tuning = tunable::tuning_of<Tuning>(values, abi::by_lengths::tunables);
  const Strategy& taken = way(is_mixed(problem) ? tuning.unlike : tuning.alike);
  return idle_microseconds(tuning) + way_microseconds(taken, problem, problem, device);
}

}  // namespace

// The time of the way for those that are alike follows the longest and what comes after it: 4000 of
// 8192 tokens and 16 heads take 171 us by `fused`, 137 of them the longest.
double longest_alike(const Problem& problem, const device::Device& device,
                     const tunable::Values& values) {
  const OfLong one =
      of_long(problem, device, tunable::tuning_of<Tuning>(values, abi::by_lengths::tunables));
  constexpr double kAfter = 0.85;
  return one.unlike < one.alike ? kAfter * one.unlike / one.alike : 1.0;
}

const Strategy by_lengths = {
    "by_lengths",
    "two ways for a pack, one where a sequence has most of the tokens, as each run finds (sm_90)",
    applicable,
    space,
    defaults,
    compose_recipe,
    estimate,
};

}  // namespace kda::strategy
