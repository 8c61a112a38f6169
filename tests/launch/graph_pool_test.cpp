#include "launch/graph_pool.hpp"

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "support/catch.hpp"
#include "support/fake_driver.hpp"

namespace launch = kda::launch;
using kda::test::FakeDriver;
using launch::GraphPool;
using Pool = std::shared_ptr<GraphPool>;

namespace {

// Whose primary context an application keeps: a pool does not.
struct HeldDriver : FakeDriver {
  HeldDriver() {
    alive.insert(primary(0));
    primaries_retained = 1;
  }
};

CUstream stream(std::uintptr_t number) { return reinterpret_cast<CUstream>(0x7000 + 16 * number); }

// Of so many kernels, which differ in their threads; with names as long as their number is.
std::vector<GraphPool::Kernel> kernels(int count) {
  std::vector<GraphPool::Kernel> out;
  for (int i = 0; i < count; ++i) {
    const unsigned cluster = i == 1 ? 4 : 1;
    const auto module = launch::Module::load(
        "cubin", std::string(static_cast<std::size_t>(i) + 1, 'k'), 0, 0, cluster);
    REQUIRE(module);
    out.push_back({*module,
                   {.threads = 64U * static_cast<unsigned>(i + 1),
                    .shared_bytes = 1000,
                    .cluster = cluster,
                    .overlaps_previous = i > 0}});
  }
  return out;
}

Pool pool_of(int count) {
  Pool pool = GraphPool::make(kernels(count), 0);
  REQUIRE(pool);
  return pool;
}

// Every kernel gets `first` and what follows as its argument and its grid.
template <std::size_t N = 2>
bool run(GraphPool& pool, CUstream on, int first) {
  int args[N];
  unsigned grids[N][3];
  GraphPool::Call calls[N];
  for (std::size_t i = 0; i < N; ++i) {
    args[i] = first + static_cast<int>(i);
    grids[i][0] = static_cast<unsigned>(4 * args[i]);
    grids[i][1] = static_cast<unsigned>(i + 2);
    grids[i][2] = 5;
    calls[i] = {grids[i], &args[i]};
  }
  return pool.launch(calls, on);
}

}  // namespace

TEST_CASE("each run's arguments and grids reach the kernels of that run, in order", "[launch]") {
  HeldDriver fake;
  const auto parts = kernels(3);
  const Pool pool = GraphPool::make(parts, 0);
  REQUIRE(pool);
  CHECK(fake.launches.empty());
  CHECK(fake.graphs.captured == 3 * static_cast<int>(GraphPool::kStreams));
  CHECK(fake.graphs.uploads == static_cast<int>(GraphPool::kStreams));
  fake.current = FakeDriver::primary(0);
  for (int first = 1; first < 5; ++first) {
    fake.launches.clear();
    REQUIRE(run<3>(*pool, stream(1), first));
    REQUIRE(fake.launches.size() == 3);
    for (int i = 0; i < 3; ++i) {
      const auto& sent = fake.launches[static_cast<std::size_t>(i)];
      const auto& part = parts[static_cast<std::size_t>(i)];
      CHECK(sent.argument == first + i);
      CHECK(sent.config.gridDimX == 4U * static_cast<unsigned>(first + i));
      CHECK(sent.config.gridDimY == static_cast<unsigned>(i + 2));
      CHECK(sent.config.gridDimZ == 5);
      CHECK(sent.config.blockDimX == part.geometry.threads);
      CHECK(sent.config.sharedMemBytes == 1000);
      CHECK(sent.function == static_cast<CUfunction>(part.module.kernel()));
      CHECK(sent.attributes.size() == (i == 0 ? 0U : i == 1 ? 2U : 1U));
      CHECK(sent.config.hStream == stream(1));
      CHECK(sent.graph != nullptr);
    }
  }
  CHECK(fake.graphs.launched == 4);
}

TEST_CASE("what a kept graph cannot serve is left to launches one by one", "[launch]") {
  HeldDriver fake;
  const Pool pool = pool_of(2);
  fake.current = FakeDriver::primary(0);
  REQUIRE(run(*pool, stream(1), 1));
  REQUIRE(run(*pool, nullptr, 1));
  const int sets = fake.graphs.sets;
  CUstream on = stream(1);
  int first = 1;
  SECTION("a stream that is being captured") { fake.capturing = true; }
  SECTION("a stream that the driver will not speak of") {
    fake.refuse_once = "cuStreamIsCapturing";
  }
  SECTION("a grid without blocks") { first = 0; }
  SECTION("the thread's own default stream") { on = CU_STREAM_PER_THREAD; }
  SECTION("a stream of another context") { fake.stream_context = FakeDriver::own_context(); }
  SECTION("the default stream of another context") {
    on = nullptr;
    fake.current = FakeDriver::own_context();
  }
  SECTION("the default stream in a thread without a context") {
    on = nullptr;
    fake.current = nullptr;
  }
  SECTION("a context that was reset: the same handle, and another one") { ++fake.resets; }
  CHECK_FALSE(run(*pool, on, first));
  CHECK(fake.graphs.sets == sets);
  CHECK(fake.graphs.launched == 2);
}

TEST_CASE("each stream has a graph to itself until none is left", "[launch]") {
  HeldDriver fake;
  const Pool pool = pool_of(2);
  fake.current = FakeDriver::primary(0);
  CHECK(run(*pool, nullptr, 1));
  for (std::uintptr_t i = 1; i < GraphPool::kStreams; ++i) CHECK(run(*pool, stream(i), 1));
  CHECK_FALSE(run(*pool, stream(9), 1));
  CHECK(run(*pool, CU_STREAM_LEGACY, 1));  // the null stream by its name
  for (std::uintptr_t i = 1; i < GraphPool::kStreams; ++i) CHECK(run(*pool, stream(i), 2));
  std::set<std::pair<CUstream, CUgraphExec>> pairs;
  std::set<CUgraphExec> graphs;
  for (const auto& sent : fake.launches) {
    CUstream own = sent.config.hStream == nullptr ? CU_STREAM_LEGACY : sent.config.hStream;
    pairs.insert({own, sent.graph});
    graphs.insert(sent.graph);
  }
  CHECK(pairs.size() == GraphPool::kStreams);
  CHECK(graphs.size() == GraphPool::kStreams);
}

TEST_CASE("threads never set a graph at once, whatever streams they share", "[launch]") {
  HeldDriver fake;
  const Pool pool = pool_of(2);
  fake.current = FakeDriver::primary(0);
  std::atomic<int> by_graph{0}, one_by_one{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 200; ++i) {
        const bool sent = run(*pool, stream(static_cast<std::uintptr_t>(t % 5)), 1000 * t + i);
        ++(sent ? by_graph : one_by_one);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(by_graph + one_by_one == 1600);
  CHECK(by_graph >= 200);
  CHECK(fake.graphs.launched == by_graph);
  CHECK(fake.graphs.collisions == 0);
  REQUIRE(fake.launches.size() == 2 * static_cast<std::size_t>(by_graph));
  std::map<CUgraphExec, CUstream> owner;
  bool whole = true, alone = true;
  for (std::size_t i = 0; i < fake.launches.size(); i += 2) {
    const auto& one = fake.launches[i];
    const auto& two = fake.launches[i + 1];
    whole = whole && two.argument == one.argument + 1 && two.graph == one.graph;
    alone = alone &&
            owner.try_emplace(one.graph, one.config.hStream).first->second == one.config.hStream;
  }
  CHECK(whole);
  CHECK(alone);
}

TEST_CASE("a graph that the driver refuses is not used again; others are", "[launch]") {
  HeldDriver fake;
  const Pool pool = pool_of(2);
  fake.current = FakeDriver::primary(0);
  launch::forget_refusal();
  SECTION("its arguments") {
    fake.set_result = CUDA_ERROR_UNKNOWN;
    CHECK_FALSE(run(*pool, stream(1), 1));
    fake.set_result = CUDA_SUCCESS;
  }
  SECTION("its launch") {
    fake.launch_result = CUDA_ERROR_UNKNOWN;
    CHECK_FALSE(run(*pool, stream(1), 1));
    fake.launch_result = CUDA_SUCCESS;
  }
  CHECK(fake.launches.empty());
  CHECK_FALSE(run(*pool, stream(1), 1));
  CHECK(run(*pool, stream(2), 1));
  CHECK(launch::refusal() == CUDA_SUCCESS);
}

// The driver ended the process when a thread without a context set a graph's arguments.
TEST_CASE("a thread without a context sets no graph, and costs a stream none", "[launch]") {
  HeldDriver fake;
  const Pool pool = pool_of(2);
  const int sets = fake.graphs.sets;
  CHECK_FALSE(run(*pool, stream(1), 1));
  CHECK(fake.graphs.sets == sets);
  fake.current = FakeDriver::primary(0);
  fake.set_result = CUDA_ERROR_INVALID_CONTEXT;
  CHECK_FALSE(run(*pool, stream(1), 1));
  fake.set_result = CUDA_SUCCESS;
  CHECK(run(*pool, stream(1), 1));
}

TEST_CASE("no pool where the driver refuses any call of its making, and nothing left", "[launch]") {
  HeldDriver fake;
  const auto parts = kernels(2);
  launch::forget_refusal();
  fake.calls = 0;
  REQUIRE(GraphPool::make(parts, 0));
  const int calls = fake.calls;
  int refused = 0;
  for (int call = 1; call <= calls; ++call) {
    fake.calls = 0;
    fake.fail_at = call;
    refused += GraphPool::make(parts, 0) == nullptr ? 1 : 0;
    fake.fail_at = 0;
    INFO("call " << call << " of " << calls);
    REQUIRE(launch::refusal() == CUDA_SUCCESS);
    REQUIRE(fake.current == nullptr);
    REQUIRE(fake.launches.empty());
  }
  CHECK(refused > 20);
  CHECK(GraphPool::make(parts, 0));
}

TEST_CASE("no pool where the driver lacks a call, or for a single kernel", "[launch]") {
  for (const char* missing :
       {"cuCtxGetId", "cuStreamGetCtx", "cuGraphGetNodes", "cuGraphUpload",
        "cuGraphKernelNodeGetParams_v2", "cuGraphExecKernelNodeSetParams_v2", ""}) {
    HeldDriver fake;
    fake.missing = missing;
    INFO(missing);
    CHECK((GraphPool::make(kernels(2), 0) != nullptr) == fake.missing.empty());
    CHECK(GraphPool::make(kernels(1), 0) == nullptr);
  }
}

TEST_CASE("graphs go with the pool, and not after their context", "[launch]") {
  HeldDriver fake;
  Pool pool = pool_of(2);
  CHECK(fake.streams == 0);
  CHECK(fake.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(fake.graphs.graphs == GraphPool::kStreams);
  CHECK(fake.graphs.executables == GraphPool::kStreams);
  SECTION("while it lives") {
    pool = nullptr;
    CHECK(fake.graphs.graphs == 0);
    CHECK(fake.graphs.executables == 0);
  }
  SECTION("it was destroyed") {
    fake.alive.clear();
    pool = nullptr;
    CHECK(fake.graphs.executables == GraphPool::kStreams);
  }
  SECTION("it was reset") {
    ++fake.resets;
    pool = nullptr;
    CHECK(fake.graphs.executables == GraphPool::kStreams);
  }
  CHECK(fake.graphs.too_late == 0);
  CHECK(fake.current == nullptr);
  CHECK(fake.primaries_retained - fake.primaries_released == 1);  // the application's
}

TEST_CASE("a pool is renewed in another context, and stays in its own", "[launch]") {
  HeldDriver fake;
  fake.current = FakeDriver::own_context();
  const Pool pool = pool_of(2);
  CHECK(GraphPool::renewed(pool, 0) == pool);
  fake.current = nullptr;
  const Pool other = GraphPool::renewed(pool, 0);
  REQUIRE(other);
  CHECK(other != pool);
  fake.current = FakeDriver::primary(0);
  CHECK(run(*other, stream(1), 1));
  CHECK_FALSE(run(*pool, stream(1), 1));
  fake.stream_context = fake.current = FakeDriver::own_context();
  CHECK(run(*pool, stream(1), 1));
}

TEST_CASE("a pool may outlive its driver", "[launch]") {
  Pool pool;
  {
    HeldDriver fake;
    fake.current = FakeDriver::own_context();
    pool = pool_of(2);
  }
  FakeDriver next;
  next.current = FakeDriver::own_context();
  CHECK_FALSE(run(*pool, stream(1), 1));
  pool = nullptr;
  CHECK(next.graphs.too_late == 0);
}
