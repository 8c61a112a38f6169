// Choose, compose, build, freeze.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/env.hpp"
#include "base/log.hpp"
#include "cache/cache.hpp"
#include "compile/toolchain.hpp"
#include "launch/driver.hpp"
#include "plan/kept.hpp"
#include "plan/measure.hpp"
#include "plan/plan.hpp"
#include "problem/problem.hpp"

namespace kda::plan {

namespace {

constexpr auto kSettled = static_cast<std::size_t>(-1);

// A problem on its way to a plan, or why it will not be one.
struct Draft {
  Problem problem;        // complete
  std::size_t first = 0;  // which of the given problems it is
  std::optional<Choice> choice;
  std::unique_ptr<const Plan::Impl> plan;
  Status status;
};

// -1: the device is only named.
Result<int> ordinal_for(const Options& options) {
  if (!options.target.empty()) return -1;
  if (Status status = check_device(options); !status) return status;
  return device::ordinal_of(options.device);
}

// Measures where options want it and nothing recorded answers just this; then chooses.
Result<Choice> decide(const Problem& problem, const device::Device& device, const Options& options,
                      cache::Cache& cache) {
  std::optional<tune::Hint> hint = hint_of(problem, device, options);
  const bool known = hint && hint->match == tune::Match::exact;
  if (options.effort != Effort::measure || known) return choose(problem, device, options, hint);

  const Result<tune::Record> record = measure(problem, device, options, cache, *wisdom_of(options));
  // What the caller asked for cannot be done: not now, or not here.
  if (!record && record.status().code() == Code::invalid_argument) return record.status();
  if (!record) {
    base::log::warn("effort = measure fell back on what is known: " + record.status().message());
    Result<Choice> choice = choose(problem, device, options, hint);
    if (choice) {
      if (!choice->evidence.empty()) choice->evidence += "; ";
      choice->evidence += "could not be measured: " + record.status().message();
      choice->provisional = true;
    }
    return choice;
  }
  forget_all();  // plans of equal problems shall know it too
  hint = tune::Hint{.record = std::make_shared<const tune::Record>(*record),
                    .match = tune::Match::exact,
                    .source = tune::Source::user,
                    .candidate = record->winner,
                    .microseconds = record->time_us.median,
                    .words = fmt::format("measured now in {:.1f} s: {:.1f} us, {}", record->seconds,
                                         record->time_us.median, record->decision)};
  Result<Choice> choice = choose(problem, device, options, hint);
  if (choice && choice->strategy_origin == Origin::wisdom) {
    choice->strategy_origin = Origin::measured;
  }
  if (choice && choice->tuning_origin == Origin::wisdom) choice->tuning_origin = Origin::measured;
  return choice;
}

// Fills in each draft's plan, or its status.
void build_all(std::vector<Draft>& drafts, const Options& options) {
  const Result<device::Device> device = device_of(options);
  if (!device) {
    for (Draft& draft : drafts) draft.status = device.status();
    return;
  }
  const std::shared_ptr<cache::Cache> cache =
      cache::shared_cache(options.cache_dir, mode_of(options));
  // Beside the kernels: a start that finds all of them there need not open NVRTC.
  compile::keep_toolchain_note_in(cache->directory(), cache->mode());
  std::vector<compose::Recipe> recipes;
  for (Draft& draft : drafts) {
    Result<Choice> choice = decide(draft.problem, *device, options, *cache);
    draft.status = choice.status();
    if (!choice) continue;
    draft.choice = *std::move(choice);
    recipes.push_back(std::move(draft.choice->recipe));
  }
  auto built = program::build_all(std::move(recipes), *device, *cache);
  const bool keeps_graphs = base::env::flag("KDA_KEEP_GRAPHS", true);
  auto next = built.begin();
  for (Draft& draft : drafts) {
    if (!draft.choice) continue;
    Result<program::Program>& program = *next++;
    draft.status = program.status();
    if (!program) continue;
    if (keeps_graphs) program::keep_graphs(*program, *device);
    draft.plan = std::make_unique<const Plan::Impl>(
        Plan::Impl{draft.problem, *device, *std::move(draft.choice), *std::move(program)});
  }
}

}  // namespace

std::vector<Made> make_all(std::span<const Problem> problems, const Options& options) {
  std::vector<Made> made;
  made.reserve(problems.size());
  while (made.size() < problems.size()) made.emplace_back(Status());
  const Result<int> ordinal = ordinal_for(options);
  Recall wanted{.options = options,
                .ordinal = ordinal ? *ordinal : -1,
                .driver = launch::driver_generation(),
                .environment = base::env::snapshot()};
  wanted.options.stream = nullptr;  // how to measure, not what comes of it
  wanted.options.time_limit_seconds = 0;

  // What was made before, or fails by itself, is settled; of equal problems the first is drafted.
  std::vector<Draft> drafts;
  std::vector<std::size_t> draft_of(problems.size(), kSettled);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Result<Problem> complete = problem::complete(problems[i]);
    if (!complete || !ordinal) {
      made[i] = complete ? ordinal.status() : complete.status();
      continue;
    }
    wanted.problem = *complete;
    if (auto plan = recall(wanted)) {
      made[i] = std::move(plan);
      continue;
    }
    const auto same = std::find_if(drafts.begin(), drafts.end(), [&](const Draft& draft) {
      return draft.problem == wanted.problem;
    });
    draft_of[i] = static_cast<std::size_t>(same - drafts.begin());
    if (same == drafts.end()) drafts.push_back({.problem = wanted.problem, .first = i});
  }
  if (drafts.empty()) return made;

  build_all(drafts, options);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (draft_of[i] == kSettled) continue;
    Draft& draft = drafts[draft_of[i]];
    if (!draft.status) {
      made[i] = draft.status;
    } else if (draft.first == i) {
      wanted.problem = draft.problem;
      if (!draft.plan->choice.provisional) keep(wanted, *draft.plan);
      made[i] = std::move(draft.plan);
    } else {
      made[i] = copy_of(**made[draft.first]);
    }
  }
  return made;
}

Status supports(const Problem& problem, const Options& options) {
  const Result<Problem> complete = problem::complete(problem);
  if (!complete) return complete.status();
  const Result<device::Device> device = device_of(options);
  if (!device) return device.status();
  // Whether it can be served does not depend on what was measured.
  Options question = options;
  question.effort = Effort::estimate;
  return choose(*complete, *device, question).status();
}

}  // namespace kda::plan
