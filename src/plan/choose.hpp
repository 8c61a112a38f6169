// Which strategy, and with which tuning: the planner's decision, without building anything.
#pragma once

#include <string>
#include <vector>

#include "compose/recipe.hpp"
#include "device/device.hpp"
#include "kda/kda.hpp"
#include "strategy/strategy.hpp"

namespace kda::plan {

// Where a choice came from.
enum class Origin {
  cost_model,  // the cheapest by the strategies' own estimates
  forced,      // Options named it
};
const char* name_of(Origin origin) noexcept;

struct Choice {
  const strategy::Strategy* strategy;
  Origin strategy_origin, tuning_origin;
  double microseconds;  // expected at max_tokens
  compose::Recipe recipe;
  std::vector<std::string> passed_over;  // "recurrent (expected 9100 us)", "x (why it cannot)"
};

// problem is complete.  Fails with invalid_argument where options name no strategy or tunable that
// there is, and with unsupported, saying why of each strategy, where none can serve.
Result<Choice> choose(const Problem& problem, const device::Device& device, const Options& options);

// The device that options ask for, present or only named.
Result<device::Device> device_of(const Options& options);
// Whether Options::device can be an ordinal at all.
Status check_device(const Options& options);

}  // namespace kda::plan
