// What was found out about one candidate: whether it is right, and how long it takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "measure/statistics.hpp"
#include "tune/candidate.hpp"

namespace kda::tune {

enum class Outcome {
  ok,         // right, and timed
  compile,    // NVRTC refused it
  spills,     // registers spill; never timed
  occupancy,  // no block of it fits a multiprocessor
  wrong,      // its output is not the reference's
  crash,      // the device refused or the process died
  timeout,    // the watchdog ended it
};
const char* name_of(Outcome outcome) noexcept;
// Fails with invalid_argument, naming the known words.
Result<Outcome> parse_outcome(std::string_view word);

// What its kernels need together.
struct Needs {
  int registers = 0;  // a thread: the most of any kernel
  int spill_bytes = 0;
  std::size_t shared_bytes = 0;  // a block, static and dynamic: the most of any kernel
  std::size_t workspace_bytes = 0;
  unsigned threads = 0;  // a block: the most of any kernel
  double occupancy = 0;  // threads resident over the most possible: the least of any kernel
  double compile_ms = 0;
};

// Fewer is better where two take the same time: workspace, then shared memory, then registers.
bool needs_less(const Needs& a, const Needs& b);

struct Measurement {
  Candidate candidate;
  Outcome outcome = Outcome::ok;
  std::string why;  // of anything but ok, in words

  int rung = 0;           // of the search; kFinals: timed in turn with the other finalists
  double at_seconds = 0;  // since the search began
  int device = 0;         // ordinal

  measure::Summary time_us;             // GPU microseconds a call
  double expected_us = 0;               // the cost model's word
  double o_error = 0, state_error = 0;  // rel-L2 against the reference, where it was verified
  Needs needs;
};

constexpr int kFinals = 100;

// One JSON object on one line, without the newline; and back.  Unknown fields are passed over, so
// that newer files can be read.
std::string to_json(const Measurement& measurement);
Result<Measurement> parse_measurement(std::string_view line);

}  // namespace kda::tune
