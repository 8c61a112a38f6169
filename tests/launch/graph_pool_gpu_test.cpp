// Kept graphs on a real device: what pending launches of one graph see, and what else the
// application does with its streams, threads and contexts meanwhile.
#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "compile/nvrtc.hpp"
#include "device/device.hpp"
#include "device/family.hpp"
#include "launch/graph_pool.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "support/gpu.hpp"

namespace launch = kda::launch;
using kda::test::must;
using kda::test::on_device;
using launch::GraphPool;
using Pool = std::shared_ptr<GraphPool>;

namespace {

constexpr std::size_t kKernels = 3;

struct Args {
  int* out;    // of this run: a sum for each kernel, and how often one began before its time
  int number;  // of the kernel
  int value;
  int before;  // what the kernel before leaves in its sum
};

// Each lets the next start early and takes its time; the next waits and looks.
constexpr const char* kSource = R"(
struct Args { int* out; int number; int value; int before; };
extern "C" __global__ void add(const __grid_constant__ Args args) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  volatile int* out = args.out;
  if (args.number > 0 && out[args.number - 1] != args.before) atomicAdd(args.out + 3, 1);
  const long long start = clock64();
  while (clock64() - start < 5000) {}
  if (threadIdx.x == 0) atomicAdd(args.out + args.number, args.value);
}
)";

kda::device::Device device() {
  const auto device = kda::device::query(0);
  INFO(device.status().message());
  REQUIRE(device);
  return *device;
}

std::vector<GraphPool::Kernel> kernels() {
  const auto family = kda::device::family_of(device());
  REQUIRE(family);
  const auto build = kda::compile::compile({.source = kSource,
                                            .entry = "add",
                                            .target = family->target,
                                            .options = kda::compile::options(family->target)},
                                           {});
  INFO(build.status().message());
  REQUIRE(build);
  std::vector<GraphPool::Kernel> out;
  for (std::size_t i = 0; i < kKernels; ++i) {
    const auto module = launch::Module::load(build->cubin, "add", 0, 0, 1);
    INFO(module.status().message());
    REQUIRE(module);
    out.push_back({*module, {.threads = 64, .overlaps_previous = device().major >= 9}});
  }
  return out;
}

class Stream {
 public:
  explicit Stream(const launch::Driver& driver) : driver_(driver) {
    must(driver.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "stream");
  }
  ~Stream() { driver_.StreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream get() const { return stream_; }

 private:
  const launch::Driver& driver_;
  CUstream stream_ = nullptr;
};

// Room for so many runs, zeroed.
class Sums {
 public:
  Sums(const launch::Driver& driver, int runs) : driver_(driver), runs_(runs) {
    must(driver.MemAlloc(&at_, bytes()), "memory");
    must(driver.MemsetD32(at_, 0, bytes() / 4), "clear");
    must(driver.CtxSynchronize(), "clear");
  }
  ~Sums() { driver_.MemFree(at_); }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;

  // Run i has a grid and values of its own.
  bool launch(GraphPool& pool, CUstream stream, int i) const {
    std::array<Args, kKernels> args;
    std::array<std::array<unsigned, 3>, kKernels> grids;
    std::array<GraphPool::Call, kKernels> calls;
    for (int k = 0; k < static_cast<int>(kKernels); ++k) {
      const auto at = static_cast<std::size_t>(k);
      args[at] = {reinterpret_cast<int*>(at_) + 4 * i, k, i + k + 1, k > 0 ? sum(i, k - 1) : 0};
      grids[at] = {static_cast<unsigned>(blocks(i, k)), 1, 1};
      calls[at] = {grids[at].data(), &args[at]};
    }
    return pool.launch(calls, stream);
  }
  // Of the first so many runs, those that did not come out; after all that was enqueued.
  int wrong(int runs) const {
    must(driver_.CtxSynchronize(), "the runs");
    std::vector<int> out(4 * static_cast<std::size_t>(runs_));
    must(driver_.MemcpyDtoH(out.data(), at_, bytes()), "read");
    int wrong = 0;
    for (int i = 0; i < runs; ++i) {
      const int* const run = out.data() + 4 * i;
      const bool right =
          run[0] == sum(i, 0) && run[1] == sum(i, 1) && run[2] == sum(i, 2) && run[3] == 0;
      wrong += right ? 0 : 1;
    }
    return wrong;
  }

 private:
  static int blocks(int i, int k) { return i % 7 + k + 1; }
  static int sum(int i, int k) { return blocks(i, k) * (i + k + 1); }
  std::size_t bytes() const { return 16 * static_cast<std::size_t>(runs_); }

  const launch::Driver& driver_;
  int runs_;
  CUdeviceptr at_ = 0;
};

Pool make_pool(const std::vector<GraphPool::Kernel>& parts) {
  Pool pool = GraphPool::make(parts, 0);
  REQUIRE(pool);
  return pool;
}

}  // namespace

TEST_CASE("launches of a kept graph that are pending at once keep their own arguments", "[gpu]") {
  if (!on_device()) return;
  const kda::test::Gpu gpu;
  const auto parts = kernels();
  const Pool pool = make_pool(parts);
  constexpr int kRuns = 500;
  const Sums sums(gpu.driver(), kRuns);
  CUstream stream = gpu.stream();
  SECTION("a stream") {}
  SECTION("the legacy stream") { stream = nullptr; }
  int by_graph = 0;
  for (int i = 0; i < kRuns; ++i) by_graph += sums.launch(*pool, stream, i) ? 1 : 0;
  CHECK(by_graph == kRuns);
  CHECK(sums.wrong(kRuns) == 0);
}

TEST_CASE("threads and streams share a pool of kept graphs", "[gpu]") {
  if (!on_device()) return;
  const kda::test::Gpu gpu;
  const auto parts = kernels();
  const Pool pool = make_pool(parts);
  constexpr int kThreads = 8, kRuns = 200;
  const Stream streams[] = {Stream(gpu.driver()), Stream(gpu.driver()), Stream(gpu.driver()),
                            Stream(gpu.driver()), Stream(gpu.driver()), Stream(gpu.driver())};
  const Sums sums(gpu.driver(), kThreads * kRuns);
  std::vector<std::vector<int>> left(kThreads);  // to launches one by one
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      gpu.make_current();
      for (int i = t * kRuns; i < (t + 1) * kRuns; ++i) {
        if (!sums.launch(*pool, streams[t % 6].get(), i))
          left[static_cast<std::size_t>(t)].push_back(i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::size_t all = 0;
  for (const std::vector<int>& each : left) {
    all += each.size();
    for (const int i : each) REQUIRE(sums.launch(*pool, streams[0].get(), i));
  }
  CHECK(all < kThreads * kRuns);
  CHECK(sums.wrong(kThreads * kRuns) == 0);
}

TEST_CASE("a kept graph leaves captures alone", "[gpu]") {
  if (!on_device()) return;
  const kda::test::Gpu gpu;
  const launch::Driver& driver = gpu.driver();
  const auto parts = kernels();
  const Sums sums(driver, 8);
  const Stream other(driver);
  CUgraph graph = nullptr;
  Pool pool = make_pool(parts);
  REQUIRE(sums.launch(*pool, gpu.stream(), 0));
  SECTION("its stream is being captured: not by a graph") {
    must(driver.StreamBeginCapture(gpu.stream(), CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
    CHECK_FALSE(sums.launch(*pool, gpu.stream(), 1));
    must(driver.StreamEndCapture(gpu.stream(), &graph), "end");
  }
  SECTION("another stream is, by this thread or another, in the strictest mode") {
    must(driver.StreamBeginCapture(other.get(), CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
    CHECK(sums.launch(*pool, gpu.stream(), 1));
    std::thread([&] {
      gpu.make_current();
      CHECK(sums.launch(*pool, gpu.stream(), 2));
    }).join();
    must(driver.StreamEndCapture(other.get(), &graph), "end");
  }
  SECTION("pools come and go meanwhile") {
    must(driver.StreamBeginCapture(other.get(), CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
    pool = nullptr;
    pool = make_pool(parts);
    must(driver.StreamEndCapture(other.get(), &graph), "end");
  }
  REQUIRE(graph != nullptr);
  driver.GraphDestroy(graph);
  CHECK(sums.launch(*pool, gpu.stream(), 3));
  must(driver.CtxSynchronize(), "the runs");
}

// The driver ended the process when a thread without a context set a graph's arguments.
TEST_CASE("a thread without a context launches no kept graph", "[gpu]") {
  if (!on_device()) return;
  const kda::test::Gpu gpu;
  const auto parts = kernels();
  const Pool pool = make_pool(parts);
  const Sums sums(gpu.driver(), 2);
  bool by_graph = true;
  std::thread([&] { by_graph = sums.launch(*pool, gpu.stream(), 0); }).join();
  CHECK_FALSE(by_graph);
  CHECK(sums.launch(*pool, gpu.stream(), 0));
  CHECK(sums.wrong(1) == 0);
}

TEST_CASE("a kept graph may go while its launches are pending", "[gpu]") {
  if (!on_device()) return;
  const kda::test::Gpu gpu;
  const auto parts = kernels();
  Pool pool = make_pool(parts);
  const Sums sums(gpu.driver(), 100);
  for (int i = 0; i < 100; ++i) REQUIRE(sums.launch(*pool, gpu.stream(), i));
  pool = nullptr;
  CHECK(sums.wrong(100) == 0);
}

TEST_CASE("kept graphs know their context when it is gone, or came back", "[gpu]") {
  if (!on_device()) return;
  Pool pool;
  SECTION("the device was reset") {
    const auto parts = kernels();
    {
      const kda::test::Gpu gpu;
      pool = make_pool(parts);
      const Sums sums(gpu.driver(), 1);
      REQUIRE(sums.launch(*pool, gpu.stream(), 0));
      CHECK(sums.wrong(1) == 0);
    }
    must((**launch::driver()).DevicePrimaryCtxReset(0), "reset");
  }
  SECTION("nobody held it") {
    {
      const kda::test::Gpu gpu;
      pool = make_pool(kernels());
    }
    unsigned flags = 0;
    int active = 1;
    must((**launch::driver()).DevicePrimaryCtxGetState(0, &flags, &active), "state");
    CHECK(active == 0);
  }
  const kda::test::Gpu gpu;
  const auto parts = kernels();
  const Sums sums(gpu.driver(), 1);
  CHECK_FALSE(sums.launch(*pool, gpu.stream(), 0));
  const Pool renewed = GraphPool::renewed(pool, 0);
  REQUIRE(renewed);
  CHECK(renewed != pool);
  pool = nullptr;
  CHECK(sums.launch(*renewed, gpu.stream(), 0));
  CHECK(sums.wrong(1) == 0);
}

TEST_CASE("kept graphs serve the legacy stream, not each thread's own", "[gpu]") {
  if (!on_device()) return;
  const kda::test::Gpu gpu;
  const auto parts = kernels();
  const Pool pool = make_pool(parts);
  const Sums sums(gpu.driver(), 2);
  CHECK_FALSE(sums.launch(*pool, CU_STREAM_PER_THREAD, 0));
  CHECK(sums.launch(*pool, CU_STREAM_LEGACY, 0));
  CHECK(sums.launch(*pool, nullptr, 1));
  CHECK(sums.wrong(2) == 0);
}
