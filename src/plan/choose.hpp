// Which strategy, and with which tuning: the planner's decision, without building anything.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/env.hpp"
#include "compose/recipe.hpp"
#include "device/device.hpp"
#include "kda/kda.hpp"
#include "strategy/strategy.hpp"
#include "tune/wisdom.hpp"

namespace kda::plan {

// Where a choice came from.
enum class Origin {
  cost_model,  // the cheapest by the strategies' own estimates
  wisdom,      // recorded measurements
  measured,    // just now, by Effort::measure
  forced,      // Options named it
};
const char* name_of(Origin origin) noexcept;

struct Choice {
  const strategy::Strategy* strategy;
  Origin strategy_origin, tuning_origin;
  double microseconds;  // expected at max_tokens
  compose::Recipe recipe;
  std::vector<std::string> passed_over;  // "recurrent (expected 9100 us)", "x (why it cannot)"
  // "exact, user wisdom of 2026-11-21: 712.3 us", or why there is none; empty: nobody asked
  std::string evidence;
  bool provisional = false;  // asked to measure, it could not: to be tried again
};

// problem is complete.  The hint, if any, goes before the cost model; options go before both.
// Fails with invalid_argument where options name no strategy or tunable that there is, with
// unsupported, saying why of each strategy, where none can serve, and with no_wisdom where
// Effort::wisdom_only finds nothing measured on such a device.
Result<Choice> choose(const Problem& problem, const device::Device& device, const Options& options,
                      const std::optional<tune::Hint>& hint = {});

// Where options keep kernels and measurements, the environment asked where they leave it open.
base::env::CacheMode mode_of(const Options& options);
std::shared_ptr<tune::Wisdom> wisdom_of(const Options& options);

// What recorded measurements say, as far as options and KDA_TUNE let them be asked.
std::optional<tune::Hint> hint_of(const Problem& problem, const device::Device& device,
                                  const Options& options);

// The device that options ask for, present or only named.
Result<device::Device> device_of(const Options& options);
// Whether Options::device can be an ordinal at all.
Status check_device(const Options& options);

}  // namespace kda::plan
