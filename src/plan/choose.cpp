#include "plan/choose.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/env.hpp"
#include "problem/problem.hpp"
#include "strategy/by_gates.hpp"
#include "strategy/pick.hpp"
#include "strategy/table.hpp"

namespace kda::plan {

namespace {

Status no_wisdom(const Problem& problem, const device::Device& device) {
  return {Code::no_wisdom,
          fmt::format("effort = wisdom_only, and nothing measured on {} fits {}; measure it with "
                      "kda-tune tune or Effort::measure, or allow Effort::estimate",
                      device.name, problem::to_text(problem))};
}

// What the library ships was measured without strategies that go by gates, and nobody who measured
// it knows the caller's: there the cost model decides.
bool prefers_by_gates(const Problem& problem, const device::Device& device, const Options& options,
                      const std::optional<tune::Hint>& hint) {
  const bool named = !options.strategy.empty() || !options.tuning.empty();
  if (named || options.effort == Effort::wisdom_only) return false;
  if (!hint || hint->source != tune::Source::shipped) return false;
  const tune::Candidate& measured = hint->candidate;
  return strategy::prefers_by_gates(problem, device, *strategy::find(measured.strategy),
                                    measured.tuning);
}

}  // namespace

const char* name_of(Origin origin) noexcept {
  switch (origin) {
    case Origin::cost_model:
      return "cost model";
    case Origin::wisdom:
      return "wisdom";
    case Origin::measured:
      return "measured now";
    case Origin::forced:
      return "forced";
  }
  return "unknown";
}

Status check_device(const Options& options) {
  if (options.device >= -1) return {};
  return {
      Code::invalid_argument,
      fmt::format("device = {}; it is a CUDA ordinal, or -1 for the current one", options.device)};
}

Result<device::Device> device_of(const Options& options) {
  if (!options.target.empty()) return device::parse(options.target);
  if (Status status = check_device(options); !status) return status;
  return device::query(options.device);
}

base::env::CacheMode mode_of(const Options& options) {
  switch (options.cache_mode) {
    case CacheMode::off:
      return base::env::CacheMode::off;
    case CacheMode::read_only:
      return base::env::CacheMode::read_only;
    case CacheMode::read_write:
      return base::env::CacheMode::read_write;
    case CacheMode::by_environment:
      break;
  }
  return base::env::cache_mode();
}

std::shared_ptr<tune::Wisdom> wisdom_of(const Options& options) {
  return tune::shared_wisdom(options.wisdom_dir, options.cache_dir, mode_of(options));
}

std::optional<tune::Hint> hint_of(const Problem& problem, const device::Device& device,
                                  const Options& options) {
  if (base::env::choice("KDA_TUNE", 1) == 0) return std::nullopt;  // off
  return wisdom_of(options)->find(problem, device, options.strategy);
}

Result<Choice> choose(const Problem& problem, const device::Device& device, const Options& options,
                      const std::optional<tune::Hint>& hint) {
  // On another device it is a guess, if a good one.
  const bool measured_here = hint && hint->match != tune::Match::other_device;
  if (options.effort == Effort::wisdom_only && !measured_here) return no_wisdom(problem, device);

  strategy::Preferred preferred;
  const bool same =
      hint && (hint->match == tune::Match::exact || hint->match == tune::Match::other_build);
  if (hint) {
    preferred = {strategy::find(hint->candidate.strategy), hint->candidate.tuning,
                 !same && options.effort != Effort::wisdom_only};
  }
  std::string name = options.strategy;
  double measured_for_expected = 1.0;
  if (prefers_by_gates(problem, device, options, hint)) {
    // The model's ratio of the two is told by what the one was measured to take.
    if (same) {
      measured_for_expected =
          hint->microseconds / preferred.strategy->estimate(problem, device, preferred.tuning);
    }
    name = strategy::by_gates.name;
    preferred = {};
  }
  Result<strategy::Pick> pick = strategy::pick(problem, device, name, options.tuning, preferred);
  if (!pick) return pick.status();
  if (options.effort == Effort::wisdom_only && !pick->strategy_preferred) {
    return Status(
        Code::no_wisdom,
        fmt::format("effort = wisdom_only, and {}, which was measured, cannot be taken "
                    "with tuning = \"{}\": {}",
                    hint->candidate.strategy, options.tuning, fmt::join(pick->passed_over, "; ")));
  }
  const auto origin = [](bool recorded) { return recorded ? Origin::wisdom : Origin::cost_model; };
  return Choice{
      pick->strategy,
      options.strategy.empty() ? origin(pick->strategy_preferred) : Origin::forced,
      options.tuning.empty() ? origin(pick->preferred) : Origin::forced,
      pick->preferred && same ? hint->microseconds : pick->microseconds * measured_for_expected,
      std::move(pick->recipe),
      std::move(pick->passed_over),
      pick->strategy_preferred ? hint->words : ""};
}

}  // namespace kda::plan
