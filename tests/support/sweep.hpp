// Many trials through every strategy: one report that names each failure, not just the first.
#pragma once

#include <string>
#include <vector>

#include "kda/kda.hpp"
#include "support/trial.hpp"

namespace kda::test {

// A way to choose the kernels: a strategy, perhaps a tuning; both empty leave it to the planner.
struct Variant {
  std::string strategy, tuning;
};
std::string to_text(const Variant& variant);

// One a row of strategy::table().
std::vector<Variant> every_strategy();

struct Tally {
  int passed = 0, failed = 0;
  int refused = 0;  // Code::unsupported: the strategy says that it does not serve the problem
};

// Makes all plans of a variant together, then runs each trial once on poisoned memory and judges it
// against the fp64 recurrence.  Prints a line a failure (the first 40) and a line a variant:
// counts, the largest error against what is allowed, seconds.  Throws where the device is lost.
Tally sweep(const char* title, const std::vector<Trial>& trials,
            const std::vector<Variant>& variants = every_strategy());

// What the same trials come to with no device: every problem legal, and composed for `target` by
// each variant; compiles nothing.
Tally compose_only(const char* title, const std::vector<Trial>& trials, const char* target,
                   const std::vector<Variant>& variants = every_strategy());

}  // namespace kda::test
