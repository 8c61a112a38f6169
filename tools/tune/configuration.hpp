// Problem, device, strategy and tuning as a command line spells them, to recipes.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/subject.hpp"
#include "device/device.hpp"
#include "plan/choose.hpp"
#include "strategy/strategy.hpp"
#include "tune/request.hpp"
#include "tune/wisdom.hpp"

namespace kda::tune_tool {

struct Target {
  std::string name;  // as typed, or the present device's
  device::Device device;
};

// --arch; without it the device present, and where there is none the `absent` ones, parted by
// commas.
std::vector<Target> targets_of(const Request& request, std::string_view absent);
// What kernels of --arch's devices are compiled for; empty where it is not said.  Throws Failure.
std::set<std::string> wanted_targets(const Request& request);
// Exactly one.  Throws Failure.
Target target_of(const Request& request, std::string_view absent);

// The problems named, each once, or every case where there are none.  Throws Failure.
std::vector<cli::Subject> problems_of(const Request& request);
// Exactly one.
cli::Subject problem_of(const Request& request);

// The strategy and tuning of each configuration asked for: lists expanded, empty as the planner
// chooses.  every_tuning: each strategy's whole space.
std::vector<kda::Options> choices_of(const Request& request);

// Exactly one.
kda::Options choice_of(const Request& request);

// --strategy, each known; empty where none is named.  Throws Failure.
std::vector<const strategy::Strategy*> strategies_of(const Request& request);

// --tuning as a search takes it: one value a tunable, of which a strategy that it looks at knows
// all; empty where there is none.  Throws Failure.
std::string fixed_tuning(const Request& request);

// Why measurements taken now would be gone with the process; empty: they are kept.
std::string why_not_kept(const tune::Wisdom& wisdom);

// As Plan::make would choose.
Result<plan::Choice> choose(const cli::Subject& subject, const Target& target,
                            const kda::Options& options);

}  // namespace kda::tune_tool
