// One line of wisdom: for this problem in this environment, this was the best, by this much.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tune/environment.hpp"
#include "tune/measurement.hpp"

namespace kda::tune {

struct Record {
  Environment environment;
  Problem problem;                    // complete; its max_ fields are what was run
  std::vector<std::int64_t> lengths;  // of the sequences that were run

  Candidate winner;
  measure::Summary time_us;  // in the finals
  Needs needs;
  Candidate fallback;  // the planner's default, timed beside it
  double fallback_us = 0;
  std::string decision;  // "12.3% under the default", "within noise of the default, which stays"

  // The best of every strategy that reached a time, the winner's among them: what a forced
  // strategy gets.  Only candidate, rung and time_us are kept.
  std::vector<Measurement> by_strategy;

  // What the search went through.
  std::string method;                   // "halving"
  int considered = 0, measured = 0;     // candidates
  std::map<std::string, int> rejected;  // by Outcome's word, and "constraints", "estimate"
  double seconds = 0;

  // For people; a change is no reason to measure again.
  std::string driver, library, date;
};

// What makes two records answers to the same question: the problem without what no kernel's speed
// depends on.
std::string key_of(const Problem& problem);
// 16 hex digits over it: the name of its file.
std::string key_digest(const Problem& problem);

std::string to_json(const Record& record);
// Fails, naming the field: with invalid_argument where the line is damaged, with unsupported where
// it may be another library's: of a newer format, or a problem or winner that this one has not.
Result<Record> parse_record(std::string_view line);

}  // namespace kda::tune
