#include "strategy/pick.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "strategy/by_lengths.hpp"
#include "strategy/expected.hpp"
#include "strategy/table.hpp"

namespace kda::strategy {

namespace {

using tunable::Values;

// A strategy that can serve, with the tuning it would start from.
struct Candidate {
  const Strategy* strategy;
  Values tuning;
  double microseconds;
  bool preferred;
};

struct Composed {
  Values tuning;
  compose::Recipe recipe;
};

Result<std::vector<const Strategy*>> strategies_for(const std::string& name) {
  if (name.empty()) return std::vector<const Strategy*>(table().begin(), table().end());
  if (const Strategy* named = find(name)) return std::vector{named};
  return Status(Code::invalid_argument,
                fmt::format("strategy = '{}'; there are {}", name, known_names()));
}

bool has(const Strategy& strategy, const std::string& tunable) {
  const tunable::Space space = strategy.space();
  return std::any_of(space.begin(), space.end(),
                     [&](const tunable::Row& row) { return row.name == tunable; });
}

// A strategy that would serve but for the caller's tuning, and what it says of that.
struct Unfit {
  const Strategy* strategy;
  Status why;
};

// Which strategies have a tunable: "'chunk' (chunk, segments)".
std::string owners_of(const std::string& tunable) {
  std::string names;
  for (const Strategy* strategy : table()) {
    if (has(*strategy, tunable)) names += (names.empty() ? "" : ", ") + std::string(strategy->name);
  }
  return fmt::format("'{}' ({})", tunable, names.empty() ? "no strategy's" : names);
}

// Why a tuning fits none: what those say of its values that have all of its tunables, else whose
// these are.
Status fits_none(const std::vector<Unfit>& unfit, const std::string& words) {
  const Result<std::vector<base::Setting>> settings = base::parse_settings(words);
  if (!settings) return settings.status();
  std::map<std::string, std::string> complaints;  // each with those that have it
  for (const Unfit& each : unfit) {
    const bool has_all =
        std::all_of(settings->begin(), settings->end(),
                    [&](const base::Setting& set) { return has(*each.strategy, set.name); });
    if (!has_all) continue;
    std::string& by = complaints[each.why.message()];
    by += (by.empty() ? "" : ", ") + std::string(each.strategy->name);
  }
  std::vector<std::string> lines;
  for (const auto& [why, by] : complaints) lines.push_back(fmt::format("{} ({})", why, by));
  if (!lines.empty()) return {Code::invalid_argument, base::join(lines, "; ")};
  for (const base::Setting& set : *settings) lines.push_back(owners_of(set.name));
  return {Code::invalid_argument,
          fmt::format("tuning: no strategy that could serve has all of its tunables: {}; kda-tune "
                      "list shows them",
                      base::join(lines, ", "))};
}

// How many tunables differ; negative where one that the caller named does.
int distance(const Values& from, const Values& to, const std::vector<base::Setting>& fixed) {
  int different = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].second == to[i].second) continue;
    if (std::any_of(fixed.begin(), fixed.end(),
                    [&](const base::Setting& each) { return each.name == from[i].first; })) {
      return -1;
    }
    ++different;
  }
  return different;
}

// How far values are apart where tunables differ.
std::int64_t gap(const Values& from, const Values& to) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    sum += std::abs(std::int64_t{from[i].second} - to[i].second);
  }
  return sum;
}

// The candidate's own tuning; where that cannot serve, the nearest that can and keeps what the
// caller named: fewest tunables changed, then cheapest, then the closest values (the model does not
// know every tunable: a ring one too deep would become the shortest).
Result<Composed> compose_nearest(const Problem& problem, const device::Device& device,
                                 const Candidate& candidate, const std::string& named) {
  const Strategy& strategy = *candidate.strategy;
  Result<compose::Recipe> first = strategy.compose(problem, device, candidate.tuning);
  if (first) return Composed{candidate.tuning, *std::move(first)};

  const Result<std::vector<base::Setting>> fixed = base::parse_settings(named);
  if (!fixed) return fixed.status();
  struct Other {
    int distance;
    double microseconds;
    std::int64_t gap;
    Values tuning;
  };
  std::vector<Other> others;
  for (Values& tuning : tunable::enumerate(strategy.space())) {
    const int away = distance(candidate.tuning, tuning, *fixed);
    if (away <= 0) continue;
    const double microseconds = expected_microseconds(strategy, problem, device, tuning);
    const std::int64_t apart = gap(candidate.tuning, tuning);
    others.push_back({away, microseconds, apart, std::move(tuning)});
  }
  std::stable_sort(others.begin(), others.end(), [](const Other& a, const Other& b) {
    return std::tie(a.distance, a.microseconds, a.gap) <
           std::tie(b.distance, b.microseconds, b.gap);
  });
  for (Other& other : others) {
    Result<compose::Recipe> recipe = strategy.compose(problem, device, other.tuning);
    if (recipe) return Composed{std::move(other.tuning), *std::move(recipe)};
  }
  return first.status();
}

// Whether the cost model expects about as much of it as of the best default, or less; no more of
// packs that may be unlike, as by_lengths knows them: what was measured was of sequences alike.
bool is_promising(const Problem& problem, const device::Device& device,
                  const std::vector<const Strategy*>& strategies, const Preferred& preferred) {
  const double slack = by_lengths.applicable(problem, device) ? 1.0 : 1.05;
  double best = std::numeric_limits<double>::infinity();
  for (const Strategy* strategy : strategies) {
    if (!strategy->applicable(problem, device)) continue;
    best = std::min(best, expected_microseconds(*strategy, problem, device,
                                                strategy->defaults(problem, device)));
  }
  return expected_microseconds(*preferred.strategy, problem, device, preferred.tuning) <=
         slack * best;
}

// Why one does not serve, where its name has been said already.
std::string_view without_name(const Status& why, const Strategy& strategy) {
  const std::string_view message = why.message();
  const std::string own = fmt::format("strategy {}: ", strategy.name);
  return message.starts_with(own) ? message.substr(own.size()) : message;
}

}  // namespace

Result<Pick> pick(const Problem& problem, const device::Device& device, const std::string& name,
                  const std::string& words, const Preferred& preferred) {
  const auto strategies = strategies_for(name);
  if (!strategies) return strategies.status();
  if (preferred.strategy != nullptr && preferred.guess &&
      !is_promising(problem, device, *strategies, preferred)) {
    return pick(problem, device, name, words);
  }

  std::vector<Candidate> candidates;
  std::vector<std::string> refusals;
  std::vector<Unfit> unfit;
  const auto refuse = [&](const Strategy* strategy, const Status& why) {
    const std::string_view message = without_name(why, *strategy);
    refusals.push_back(name.empty() ? fmt::format("{} ({})", strategy->name, message)
                                    : std::string(message));
  };
  for (const Strategy* strategy : *strategies) {
    if (const Status status = strategy->applicable(problem, device); !status) {
      refuse(strategy, status);
      continue;
    }
    const bool first = strategy == preferred.strategy;
    Result<Values> tuning = tunable::parse(
        words, strategy->space(), first ? preferred.tuning : strategy->defaults(problem, device));
    if (!tuning) {
      refuse(strategy, tuning.status());
      unfit.push_back({strategy, tuning.status()});
      continue;
    }
    const double microseconds = expected_microseconds(*strategy, problem, device, *tuning);
    candidates.push_back({strategy, *std::move(tuning), microseconds, first});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     if (a.preferred != b.preferred) return a.preferred;
                     return a.microseconds < b.microseconds;
                   });

  std::optional<Pick> picked;
  for (const Candidate& candidate : candidates) {
    if (picked) {
      refusals.push_back(
          fmt::format("{} (expected {:.1f} us)", candidate.strategy->name, candidate.microseconds));
      continue;
    }
    Result<Composed> composed = compose_nearest(problem, device, candidate, words);
    if (!composed) {
      refuse(candidate.strategy, composed.status());
      continue;
    }
    const bool as_given = candidate.preferred && composed->tuning == preferred.tuning;
    picked = Pick{candidate.strategy,
                  expected_microseconds(*candidate.strategy, problem, device, composed->tuning),
                  std::move(composed->recipe),
                  as_given,
                  candidate.preferred,
                  {}};
    picked->recipe.strategy = candidate.strategy->name;
    picked->recipe.tuning = std::move(composed->tuning);
  }
  if (picked) {
    picked->passed_over = std::move(refusals);
    return *std::move(picked);
  }
  if (candidates.empty() && !unfit.empty()) {
    return name.empty() ? fits_none(unfit, words) : unfit.front().why;
  }
  return Status(Code::unsupported,
                fmt::format("{} this problem on {}: {}",
                            name.empty() ? "no strategy serves"
                                         : fmt::format("strategy {} does not serve", name),
                            device.name, fmt::join(refusals, "; ")));
}

}  // namespace kda::strategy
