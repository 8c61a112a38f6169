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

// Whether it must: `recurrent` serves every problem, `chunk` all whose states are those after whole
// sequences or tiles of tokens, and so does whoever chooses between them.
bool serves(const Variant& variant, const Problem& problem);

// One a row of strategy::table().
std::vector<Variant> every_strategy();

struct Tally {
  int passed = 0, failed = 0;
  int refused =
      0;  // Code::unsupported, from a strategy or tuning that need not serve every problem
};

// Makes all plans of a variant together, then runs each trial once on poisoned memory and judges it
// against the fp64 recurrence.  Prints each failure (the first 40) and a line a strategy: counts
// and the largest error, of what is allowed; at the end seconds (tools/device_check.sh adds the
// counts up).  Throws where the device is lost.
Tally sweep(const char* title, const std::vector<Trial>& trials,
            const std::vector<Variant>& variants = every_strategy());

// What the same trials come to with no device: every problem legal, and composed for `target` by
// each variant; compiles nothing.
Tally compose_only(const char* title, const std::vector<Trial>& trials, const char* target,
                   const std::vector<Variant>& variants = every_strategy());

}  // namespace kda::test
