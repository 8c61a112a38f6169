// The cost model's choice: which strategy, with which tuning, where nothing was measured.
#pragma once

#include <string>
#include <vector>

#include "strategy/strategy.hpp"

namespace kda::strategy {

// A strategy and tuning to be taken before all others, if it can serve.
struct Preferred {
  const Strategy* strategy = nullptr;  // null: none
  tunable::Values tuning;              // every tunable
  bool guess = false;  // not measured on this problem: only where the cost model does not object
};

struct Pick {
  const Strategy* strategy;
  double microseconds;  // expected at max_tokens
  compose::Recipe recipe;
  bool preferred = false;                // the Preferred one, as it was given
  bool strategy_preferred = false;       // its strategy, perhaps with another tuning
  std::vector<std::string> passed_over;  // "recurrent (expected 9100 us)", "x (why it cannot)"
};

// problem is complete.  `name` is a strategy or empty, `words` fix tunables or are empty;
// where they leave a choice, the preferred comes first, then the cheapest by estimate.  Where a
// tuning cannot serve, the nearest one that can and keeps the words is taken.  Fails with
// invalid_argument where the words name nothing that there is, saying which strategies have what
// they name, and with unsupported, saying why of each strategy, where none can serve.
Result<Pick> pick(const Problem& problem, const device::Device& device, const std::string& name,
                  const std::string& words, const Preferred& preferred = {});

}  // namespace kda::strategy
