#include "tune/configuration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/env.hpp"
#include "base/text.hpp"
#include "cli/failure.hpp"
#include "cli/suites.hpp"
#include "cli/words.hpp"
#include "device/family.hpp"
#include "problem/problem.hpp"
#include "strategy/table.hpp"
#include "tune/candidate.hpp"

namespace kda::tune_tool {

using cli::must;

std::vector<const strategy::Strategy*> strategies_of(const Request& request) {
  std::vector<const strategy::Strategy*> named;
  for (const std::string& name : request.strategies) {
    named.push_back(strategy::find(name));
    if (named.back() != nullptr) continue;
    throw cli::Failure(cli::kBadCommand,
                       fmt::format("--strategy {}: there are {}", name, strategy::known_names()));
  }
  return named;
}

namespace {

// Those named, or all that a search takes unasked.
std::vector<std::string> searched(const Request& request) {
  if (!strategies_of(request).empty()) return request.strategies;
  std::vector<std::string> all;
  for (const strategy::Strategy* each : strategy::table()) {
    if (!each->goes_by_gates) all.emplace_back(each->name);
  }
  return all;
}

}  // namespace

std::set<std::string> wanted_targets(const Request& request) {
  std::set<std::string> targets;
  for (const std::string& name : request.archs) {
    const device::Device device = cli::must(device::parse(name));
    targets.insert(cli::must(device::family_of(device)).target);
  }
  return targets;
}

std::vector<Target> targets_of(const Request& request, std::string_view absent) {
  std::vector<std::string> names = request.archs;
  if (names.empty()) {
    const Result<device::Device> present = device::query(-1);
    if (present) return {{present->name, *present}};
    for (const std::string_view name : base::split(absent, ',')) {
      if (!name.empty()) names.emplace_back(name);
    }
  }
  std::vector<Target> targets;
  for (const std::string& name : names) targets.push_back({name, must(device::parse(name))});
  return targets;
}

Target target_of(const Request& request, std::string_view absent) {
  std::vector<Target> targets = targets_of(request, absent);
  if (targets.size() == 1) return std::move(targets.front());
  throw cli::Failure(cli::kBadCommand, fmt::format("--arch {} names {} devices; one is wanted",
                                                   base::join(request.archs, ","), targets.size()));
}

std::vector<cli::Subject> problems_of(const Request& request) {
  // One regime stands for all: the gate's values change nothing that is compiled.
  if (request.problems.empty() && request.tp == 0) return cli::suite({"strong"});
  std::vector<std::string> groups = cli::group_words(request.problems);
  if (request.tp > 0) groups = must(cli::with_tp(std::move(groups), request.tp));
  std::vector<cli::Subject> subjects;
  for (const std::string& text : groups) {
    for (cli::Subject& subject : must(cli::subjects_of(text, {}))) {
      subjects.push_back(std::move(subject));
    }
  }
  return subjects;
}

cli::Subject problem_of(const Request& request) {
  if (request.problems.empty()) {
    throw cli::Failure(cli::kBadCommand,
                       "name a case, a model or a problem in words, such as \"T=8192 H=64\"; "
                       "kda-tune list shows the cases");
  }
  std::vector<cli::Subject> subjects = problems_of(request);
  if (subjects.size() != 1) {
    constexpr std::size_t kSome = 5;
    std::vector<std::string> names;
    for (const cli::Subject& each : subjects) names.push_back(base::quote(each.name));
    const std::size_t all = names.size();
    if (all > kSome) names.resize(kSome), names.emplace_back("...");
    throw cli::Failure(cli::kBadCommand, fmt::format("this names {} problems, {}; one is wanted",
                                                     all, fmt::join(names, ", ")));
  }
  return std::move(subjects.front());
}

std::vector<kda::Options> choices_of(const Request& request) {
  std::vector<std::string> strategies = request.strategies;
  if (strategies.empty() && request.every_tuning) {
    for (const strategy::Strategy* each : strategy::table()) strategies.emplace_back(each->name);
  }
  if (strategies.empty()) strategies.emplace_back();

  std::vector<kda::Options> choices;
  for (const std::string& name : strategies) {
    std::vector<std::string> tunings;
    for (const std::string& text : request.tunings) {
      for (std::string& tuning : must(cli::expand(text))) tunings.push_back(std::move(tuning));
    }
    const strategy::Strategy* named = strategy::find(name);
    if (request.every_tuning && named != nullptr) {
      for (const tunable::Values& values : tunable::enumerate(named->space())) {
        tunings.push_back(tunable::to_text(values));
      }
    }
    if (tunings.empty()) tunings.emplace_back();
    for (const std::string& tuning : tunings) {
      kda::Options& options = choices.emplace_back();
      options.strategy = name;
      options.tuning = tuning;
      options.cache_dir = request.cache_dir;  // beside which measurements lie
    }
  }
  return choices;
}

kda::Options choice_of(const Request& request) {
  std::vector<kda::Options> choices = choices_of(request);
  if (choices.size() == 1) return std::move(choices.front());
  throw cli::Failure(cli::kBadCommand,
                     fmt::format("--strategy and --tuning name {} choices; one is wanted, such as "
                                 "--strategy chunk --tuning \"chunk=32 shards=2\"",
                                 choices.size()));
}

std::string fixed_tuning(const Request& request) {
  const std::vector<std::string> strategies = searched(request);
  std::vector<std::string> tunings;
  for (const std::string& text : request.tunings) {
    for (std::string& tuning : must(cli::expand(text))) {
      if (!tuning.empty()) tunings.push_back(std::move(tuning));
    }
  }
  if (tunings.empty()) return {};
  if (tunings.size() > 1) {
    throw cli::Failure(
        cli::kBadCommand,
        fmt::format("--tuning names {} tunings, \"{}\" and \"{}\" among them; a search holds one: "
                    "it wants one value a tunable, and tries all of those not named",
                    tunings.size(), tunings[0], tunings[1]));
  }
  std::string refusal;
  for (const std::string& name : strategies) {
    const auto parsed = tune::parse_candidate(name, tunings.front());
    if (parsed) return tunings.front();
    refusal = fmt::format("{}: {}", name, parsed.status().message());
  }
  throw cli::Failure(cli::kBadCommand,
                     fmt::format("--tuning \"{}\" fits none of the strategies, whose tunables "
                                 "kda-tune list shows; {}",
                                 tunings.front(), refusal));
}

std::string why_not_kept(const tune::Wisdom& wisdom) {
  if (wisdom.keeps()) return {};
  if (wisdom.directory().empty()) return "there is no directory for measurements; set HOME";
  if (!wisdom.distrusted().empty()) return wisdom.distrusted();
  return fmt::format("KDA_CACHE is {}, and {} is not written", base::env::get("KDA_CACHE"),
                     wisdom.directory());
}

Result<plan::Choice> choose(const cli::Subject& subject, const Target& target,
                            const kda::Options& options) {
  return plan::choose(subject.problem, target.device, options,
                      plan::hint_of(subject.problem, target.device, options));
}

}  // namespace kda::tune_tool
