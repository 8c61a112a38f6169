#include "bench/make_time.hpp"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <vector>

#include "measure/statistics.hpp"
#include "plan/kept.hpp"
#include "tune/wisdom.hpp"

namespace kda::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// A folder of its own that goes away with it.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "kda-bench.XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

Result<MakeTime> make_time(const Problem& problem, Options options) {
  const Scratch scratch;
  const fs::path cold = scratch.path() / "cold", warm = scratch.path() / "warm";
  MakeTime time;

  plan::forget_all();
  // The same plan as without it, whose records may lie beside its cache.
  options.wisdom_dir = tune::shared_wisdom(options.wisdom_dir, options.cache_dir)->directory();
  options.cache_dir = cold.string();
  Clock::time_point start = Clock::now();
  {
    const Result<Plan> plan = Plan::make(problem, options);
    if (!plan) return plan.status();
    time.cold_ms = milliseconds_since(start);
  }

  // A cache lives as long as the process: under a new name the same files are new to it.
  std::error_code error;
  fs::rename(cold, warm, error);
  if (error) return Status(Code::device_error, "cannot rename " + cold.string());
  plan::forget_all();
  options.cache_dir = warm.string();
  start = Clock::now();
  {
    const Result<Plan> plan = Plan::make(problem, options);
    if (!plan) return plan.status();
    time.disk_ms = milliseconds_since(start);
  }

  std::vector<double> again;
  for (int i = 0; i < 5; ++i) {
    start = Clock::now();
    const Result<Plan> plan = Plan::make(problem, options);
    if (!plan) return plan.status();
    again.push_back(1e3 * milliseconds_since(start));
  }
  time.memory_us = measure::summarize(again).median;
  return time;
}

}  // namespace kda::bench
