#include "tune/candidate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "strategy/expected.hpp"
#include "strategy/pick.hpp"
#include "strategy/table.hpp"

namespace kda::tune {

namespace {

using strategy::Strategy;

bool keeps(const tunable::Values& values, const std::vector<base::Setting>& fixed) {
  return std::all_of(fixed.begin(), fixed.end(), [&](const base::Setting& setting) {
    const std::optional<std::int64_t> wanted = base::parse_integer(setting.value);
    return std::any_of(values.begin(), values.end(), [&](const auto& each) {
      return each.first == setting.name && each.second == wanted;
    });
  });
}

}  // namespace

std::string to_text(const Candidate& candidate) {
  return candidate.strategy + " " + tunable::to_text(candidate.tuning);
}

Result<Candidate> parse_candidate(std::string_view strategy, std::string_view tuning) {
  const Strategy* found = strategy::find(strategy);
  if (found == nullptr) {
    return Status(
        Code::invalid_argument,
        fmt::format("strategy = {}; there are {}", base::quote(strategy), strategy::known_names()));
  }
  if (base::words(tuning).empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("tuning is empty; that of strategy {} names tunables", strategy));
  }
  const tunable::Space space = found->space();
  tunable::Values start;
  for (const tunable::Row& row : space) start.emplace_back(row.name, row.initial);
  Result<tunable::Values> values = tunable::parse(tuning, space, std::move(start));
  if (!values) return values.status();
  return Candidate{found->name, *std::move(values)};
}

Result<Listing> list_candidates(const Problem& problem, const device::Device& device,
                                const Scope& scope) {
  const Result<std::vector<base::Setting>> fixed = base::parse_settings(scope.tuning);
  if (!fixed) return fixed.status();
  std::vector<std::string> names = scope.strategies;
  if (names.empty()) {
    for (const Strategy* each : strategy::table()) {
      if (!each->goes_by_gates) names.emplace_back(each->name);
    }
  }

  Listing listing;
  std::optional<strategy::Pick> fallback;
  std::optional<Status> refusal;
  for (const std::string& name : names) {
    const Result<strategy::Pick> pick = strategy::pick(problem, device, name, scope.tuning);
    if (!pick) {
      // One strategy's tunable need not be another's; a name that nobody has is an error.
      if (pick.status().code() == Code::invalid_argument && strategy::find(name) == nullptr) {
        return pick.status();
      }
      refusal = pick.status();
      continue;
    }
    if (!fallback || pick->microseconds < fallback->microseconds) fallback = *pick;
    for (tunable::Values& tuning : tunable::enumerate(pick->strategy->space())) {
      if (!keeps(tuning, *fixed)) continue;
      Result<compose::Recipe> recipe = pick->strategy->compose(problem, device, tuning);
      if (!recipe) {
        ++listing.refused;
        continue;
      }
      recipe->strategy = pick->strategy->name;
      recipe->tuning = tuning;
      const double expected =
          strategy::expected_microseconds(*pick->strategy, problem, device, tuning);
      listing.candidates.push_back(
          {{pick->strategy->name, std::move(tuning)}, *std::move(recipe), expected, false});
    }
  }
  if (!fallback) return *refusal;

  const Candidate chosen{fallback->strategy->name, fallback->recipe.tuning};
  for (Listed& each : listing.candidates) each.is_default = each.candidate == chosen;
  std::stable_sort(listing.candidates.begin(), listing.candidates.end(),
                   [](const Listed& a, const Listed& b) {
                     if (a.is_default != b.is_default) return a.is_default;
                     return a.expected_us < b.expected_us;
                   });
  // A default need not be among the values worth trying.
  if (!listing.candidates.empty() && listing.candidates.front().is_default) return listing;
  listing.candidates.insert(listing.candidates.begin(),
                            {chosen, std::move(fallback->recipe), fallback->microseconds, true});
  return listing;
}

}  // namespace kda::tune
