// A search's hands: compiles candidates, has them measured, keeps journal, clock and best so far.
#pragma once

#include <chrono>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tune/search.hpp"

namespace kda::tune {

struct Timed {
  const Listed* listed;
  Measurement measurement;
};

class Evaluator {
 public:
  Evaluator(const device::Device& device, cache::Cache& cache, Measurer& measurer,
            const SearchOptions& options);

  // Those of the candidates that are right, fastest first.  Compiles what it has not, and takes
  // from the journal what an earlier run of the search measured.  Ends early once over(); the
  // finals do not.  Fails as Measurer::measure does.
  Result<std::vector<Timed>> evaluate(std::span<const Listed* const> candidates, Timing timing);

  // Whether a limit is reached or the search shall stop.
  bool over();
  const std::string& ended_by() const { return ended_by_; }

  double seconds() const;
  const std::vector<Measurement>& measurements() const { return measurements_; }

 private:
  double before_finals() const;  // seconds that the time limit leaves for what comes before them
  std::vector<const Listed*> build(std::span<const Listed* const> candidates, const Timing& timing);
  void keep(const Listed& listed, Measurement measurement, bool journaled);
  void report(const char* phase, std::size_t done, std::size_t total);

  const device::Device& device_;
  cache::Cache& cache_;
  Measurer& measurer_;
  const SearchOptions& options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  std::map<const Listed*, Measurement> built_;
  std::map<std::pair<std::string, int>, const Measurement*> earlier_;  // by name and rung
  std::vector<Measurement> measurements_;
  int evaluations_ = 0;
  double best_us_ = 0;
  std::string best_;
  std::string ended_by_;
};

}  // namespace kda::tune
