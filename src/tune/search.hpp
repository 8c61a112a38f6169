// The search: constraints, compiling without the GPU, then timing fewer and fewer candidates ever
// better, and finals in which the default takes part.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/cache.hpp"
#include "tune/journal.hpp"

namespace kda::tune {

enum class Method {
  halving,     // a shortlist, the better part of it again, then steps from the best of those
  exhaustive,  // every candidate, then the better part again: what halving is held to
  random,      // max_evals of them by lot
  local,       // from the default, one tunable at a time
};
const char* name_of(Method method) noexcept;
// Fails with invalid_argument, naming the known words.
Result<Method> parse_method(std::string_view word);

// How a batch of candidates is to be timed.
struct Timing {
  int rung = 0;
  int repeats = 5;           // of each candidate's graph
  double window_us = 1000;   // that a graph should at least last
  bool interleaved = false;  // in turn, so that a drift of the clocks meets all alike; one device
  bool at_size = false;      // verify at the problem's own size too
  double give_up_us = 0;     // a call that takes longer is timed no better than that; 0: never
  // No candidate is begun later; those that were not are left out.
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();
};

// Verifies and times candidates; owns the inputs.  One that faults or hangs costs only itself.
class Measurer {
 public:
  virtual ~Measurer() = default;

  // One measurement a candidate, as far as `until` allows, in any order, with candidate, outcome,
  // why, device, time_us and errors filled in.  A candidate is verified before it is first timed.
  // `done` is told of each, one at a time.  Fails where nothing can be measured any more: no
  // device, no memory.
  using Done = std::function<void(std::size_t index, Measurement)>;
  virtual Status measure(std::span<const Candidate> candidates, const Timing& timing,
                         const Done& done) = 0;

  // Devices that measure at once.
  virtual int width() const { return 1; }
};

struct Progress {
  const char* phase = "";           // "compile", "time", "finals"
  std::size_t done = 0, total = 0;  // of this phase; a search under way may still change total
  double seconds = 0;               // since it began
  double best_us = 0;               // 0: none yet
  std::string best;                 // to_text of that candidate
};

struct SearchOptions {
  Method method = Method::halving;
  Scope scope;
  double time_limit_seconds = 0;  // 0: none.  Finals of what there is take place in any case
  int max_evals = 0;              // measurements before the finals; 0: no limit
  int finalists = 6;
  std::uint64_t seed = 1;
  unsigned compile_threads = 0;  // 0: as many as cores
  Journal* journal = nullptr;    // every measurement goes there, and earlier ones come from there
  const std::atomic<bool>* stop = nullptr;  // once true, the search ends with what it has
  std::function<void(const Progress&)> on_progress;
};

struct SearchResult {
  Record record;                          // the winner, or the default where nothing beats it
  std::vector<Measurement> measurements;  // in the order made, finals last
  bool complete = false;                  // false: a limit or `stop` ended it early
  std::string ended_by;                   // "" or "time limit", "evaluation limit", "stop"
};

// What a search compiles before it measures anything, the likeliest first.
Result<std::vector<Listed>> first_looks(const Problem& problem, const device::Device& device,
                                        const SearchOptions& options);

// problem is complete; lengths are those of the sequences that `measurer` runs.  Fails where no
// candidate is right, or nothing could be measured.
Result<SearchResult> search(const Problem& problem, const std::vector<std::int64_t>& lengths,
                            const device::Device& device, cache::Cache& cache, Measurer& measurer,
                            const SearchOptions& options);

}  // namespace kda::tune
