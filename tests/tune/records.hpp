// Wisdom for tests: records as a search would make them.
#pragma once

#include <string>

#include "support/catch.hpp"
#include "tune/crowd.hpp"
#include "tune/record.hpp"
#include "tune/small_problem.hpp"
#include "tune/wisdom.hpp"

namespace kda::test {

inline tune::Candidate candidate_of(const char* strategy, const char* tuning) {
  const auto candidate = tune::parse_candidate(strategy, tuning);
  INFO(candidate.status().message());
  REQUIRE(candidate);
  return *candidate;
}

inline tune::Candidate recurrent(const char* tuning = "threads=64 lanes=16 columns=2 stages=2") {
  return candidate_of("recurrent", tuning);
}

// As if measured on the device at 100 us, 20% under the default.
inline tune::Record record_of(const Problem& problem, const device::Device& device = h200(),
                              const tune::Candidate& winner = recurrent()) {
  const auto environment = tune::environment_of(device);
  REQUIRE(environment);
  tune::Record r;
  r.environment = *environment;
  r.problem = problem;
  r.lengths = tune::usual_lengths(problem);
  r.winner = winner;
  r.time_us = {.n = 25, .median = 100, .iqr = 1, .min = 98};
  r.needs = {.registers = 64, .shared_bytes = 1024, .threads = 64, .occupancy = 0.5};
  r.fallback = recurrent("threads=128 lanes=8 columns=2 stages=2");
  r.fallback_us = 125;
  r.decision = "20.0% under the default";
  tune::Measurement best;
  best.candidate = winner;
  best.rung = tune::kFinals;
  best.time_us = r.time_us;
  r.by_strategy = {best};
  r.method = "halving";
  r.considered = 64;
  r.measured = 40;
  r.rejected = {{"constraints", 12}, {"spills", 2}};
  r.seconds = 3.5;
  r.driver = "580.1";
  r.library = "0.1.0 abc";
  r.date = "2026-11-21T08:00:00Z";
  return r;
}

}  // namespace kda::test
