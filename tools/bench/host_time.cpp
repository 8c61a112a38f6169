#include "bench/host_time.hpp"

#include <algorithm>
#include <chrono>

namespace kda::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWindow = 20e3;  // microseconds of GPU time that one loop may take
constexpr int kBatch = 16;        // calls before the queue is drained

double nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

}  // namespace

HostTime host_time(const Gpu& gpu, const Call& call, int sets, double gpu_us, bool quick) {
  const int loops = quick || gpu_us > kWindow ? 3 : 7;
  const int calls = std::clamp(static_cast<int>(kWindow / gpu_us), 3, 200);
  std::vector<double> loop_us;
  for (int loop = 0; loop <= loops; ++loop) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) call(i % sets);
    gpu.synchronize();
    if (loop > 0) loop_us.push_back(nanoseconds_since(start) / 1e3 / calls);  // the first warms up
  }

  const int wanted = quick || gpu_us > kWindow ? kBatch : 10 * kBatch;
  const int batch = gpu_us > kWindow ? 2 : kBatch;
  std::vector<double> run_ns;
  while (static_cast<int>(run_ns.size()) < wanted) {
    for (int i = 0; i < batch; ++i) {
      const Clock::time_point start = Clock::now();
      call(i % sets);
      run_ns.push_back(nanoseconds_since(start));
    }
    gpu.synchronize();
  }
  return {measure::summarize(loop_us), measure::summarize(run_ns)};
}

}  // namespace kda::bench
