// A strategy and a tuning that may serve a problem: what a search times and wisdom remembers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/device.hpp"
#include "kda/kda.hpp"
#include "strategy/strategy.hpp"
#include "tunable/space.hpp"

namespace kda::tune {

struct Candidate {
  std::string strategy;
  tunable::Values tuning;  // every tunable of the strategy, in its order

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// "chunk chunk=32 shards=2 ...": its name in messages, and what tells candidates apart.
std::string to_text(const Candidate& candidate);

// A strategy and tuning by their names.  A tunable that is not named has its field's initial value:
// wisdom may be older than it.  Fails with invalid_argument where none is named, this library has
// no such strategy or tunable, or a value is not one of the row's.
Result<Candidate> parse_candidate(std::string_view strategy, std::string_view tuning);

// What a search may look at.
struct Scope {
  std::vector<std::string> strategies;  // empty: all but those that go by gates
  std::string tuning;                   // "chunk=32": these tunables are fixed
};

struct Listed {
  Candidate candidate;
  compose::Recipe recipe;
  double expected_us = 0;   // by the strategy's cost model
  bool is_default = false;  // what the planner takes of these where nothing was measured
};

struct Listing {
  std::vector<Listed> candidates;  // the planner's default first, then by expected time
  int refused = 0;                 // combinations that their strategy cannot serve
};

// All that the strategies can compose for the problem (complete).  Fails as the planner does where
// the scope names no strategy or tunable that there is, or nothing can serve.
Result<Listing> list_candidates(const Problem& problem, const device::Device& device,
                                const Scope& scope);

}  // namespace kda::tune
