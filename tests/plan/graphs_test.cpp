// Plans of several kernels and their kept graphs, on a driver of our own: when a run is one launch
// of a graph, when it is a launch for each kernel, and that both say the same.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/kept.hpp"
#include "plan/plan.hpp"
#include "support/catch.hpp"
#include "support/fake_driver.hpp"
#include "support/forward.hpp"
#include "support/scratch.hpp"

using namespace kda;
using test::FakeDriver;

namespace {

using Made = std::unique_ptr<const Plan::Impl>;

const test::Scratch& scratch() {
  static const test::Scratch directory;
  return directory;
}

Problem two_kernels() {
  return {.heads = 2, .key_dim = 64, .value_dim = 64, .max_tokens = 256, .final_state = true};
}

Made make(const std::string& strategy = "chunk") {
  const Problem problem = two_kernels();
  auto made = plan::make_all({&problem, 1}, {.cache_dir = scratch().path(), .strategy = strategy});
  INFO(made.front().status().message());
  REQUIRE(made.front());
  return std::move(*made.front());
}

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }
Stream stream(std::uintptr_t number) { return static_cast<Stream>(at(0x7000 + 16 * number)); }

// Where `set` lies in memory tells one run's arguments from another's.
Status run(const Plan::Impl& plan, std::int64_t tokens, std::uintptr_t set, Stream on = stream(1)) {
  const std::uintptr_t base = 0x1000000 * (set + 1);
  Forward f = test::forward_at(tokens, base, 0x100000);
  f.final_state = at(base + 0x600000);
  return plan::run(plan, f, at(base + 0x700000), plan.program.recipe.workspace_bytes, on);
}

struct Fresh {
  Fresh() { plan::forget_all(); }
  ~Fresh() { plan::forget_all(); }
  FakeDriver fake;
};

// What the kernels were given, and not how.
std::vector<std::vector<std::uint64_t>> sent(const FakeDriver& fake) {
  std::vector<std::vector<std::uint64_t>> out;
  for (const auto& launch : fake.launches) {
    const CUlaunchConfig& c = launch.config;
    out.push_back({c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX, c.sharedMemBytes,
                   reinterpret_cast<std::uintptr_t>(c.hStream),
                   reinterpret_cast<std::uintptr_t>(launch.function),
                   static_cast<std::uint64_t>(launch.argument)});
  }
  return out;
}

int by_graph(const FakeDriver& fake) {
  return static_cast<int>(std::count_if(fake.launches.begin(), fake.launches.end(),
                                        [](const auto& each) { return each.graph != nullptr; }));
}

}  // namespace

TEST_CASE("runs by a graph give the kernels what runs without one do", "[plan][compile]") {
  Fresh at;
  const Made kept = make();
  at.fake.current = FakeDriver::primary(0);
  const auto runs = [&](const Made& plan) {
    at.fake.launches.clear();
    for (const std::int64_t tokens : {256, 1, 33, 256}) {
      CHECK(run(*plan, tokens, static_cast<std::uintptr_t>(tokens)));
    }
    return sent(at.fake);
  };
  const auto expected = runs(kept);
  CHECK(by_graph(at.fake) == 8);
  CHECK(at.fake.graphs.launched == 4);
  CHECK(expected[0][0] != expected[2][0]);          // another grid
  CHECK(expected[0].back() != expected[2].back());  // other arguments
  const test::Environment off("KDA_KEEP_GRAPHS", "0");
  const Made plain = make();
  CHECK(plain->program.graphs == nullptr);
  CHECK(runs(plain) == expected);
  CHECK(by_graph(at.fake) == 0);
}

TEST_CASE("a run in a capture, or without tokens, launches its kernels one by one",
          "[plan][compile]") {
  Fresh at;
  const Made plan = make();
  at.fake.current = FakeDriver::primary(0);
  at.fake.capturing = true;
  CHECK(run(*plan, 100, 0));
  CHECK(at.fake.launches.size() == 2);
  at.fake.capturing = false;
  CHECK(run(*plan, 0, 0));  // nothing to prepare
  CHECK(at.fake.launches.size() == 3);
  CHECK(at.fake.graphs.launched == 0);
  CHECK(run(*plan, 100, 0));
  CHECK(at.fake.graphs.launched == 1);
}

TEST_CASE("a graph that is refused leaves the run whole, and once", "[plan][compile]") {
  Fresh at;
  const Made plan = make();
  at.fake.current = FakeDriver::primary(0);
  SECTION("its arguments") { at.fake.set_result = CUDA_ERROR_UNKNOWN; }
  SECTION("the arguments of its second kernel") {
    at.fake.calls = 0;
    at.fake.fail_at = 6;  // current? capturing? whose? which? first, second
  }
  SECTION("its launch") { at.fake.refuse_once = "cuGraphLaunch"; }
  CHECK(run(*plan, 100, 0));
  CHECK(at.fake.launches.size() == 2);
  CHECK(by_graph(at.fake) == 0);
  at.fake.set_result = CUDA_SUCCESS;
  CHECK(run(*plan, 100, 0));
  CHECK(at.fake.launches.size() == 4);
  CHECK(by_graph(at.fake) == 0);
  CHECK(run(*plan, 100, 0, stream(2)));
  CHECK(by_graph(at.fake) == 2);
}

TEST_CASE("a device that refuses every launch is an error that names the kernel's",
          "[plan][compile]") {
  Fresh at;
  const Made plan = make();
  at.fake.launch_result = CUDA_ERROR_LAUNCH_FAILED;
  const Status status = run(*plan, 100, 0);
  CHECK(status.code() == Code::device_error);
  CHECK_THAT(status.message(), test::contains("kernel launch of "));
  CHECK(at.fake.launches.size() == 1);
}

TEST_CASE("a driver without graphs makes the same plans", "[plan][compile]") {
  Fresh at;
  SECTION("it lacks a call") { at.fake.missing = "cuGraphExecKernelNodeSetParams_v2"; }
  SECTION("it refuses one") { at.fake.refuse_once = "cuGraphInstantiateWithFlags"; }
  const Made plan = make();
  CHECK(plan->program.graphs == nullptr);
  CHECK(run(*plan, 100, 0));
  CHECK(at.fake.launches.size() == 2);
  CHECK(at.fake.graphs.graphs == 0);
  CHECK(at.fake.graphs.executables == 0);
  CHECK(at.fake.streams == 0);
}

TEST_CASE("a plan of one kernel asks nothing and keeps nothing", "[plan][compile]") {
  Fresh at;
  const Made plan = make("recurrent");
  CHECK(at.fake.graphs.captured == 0);
  at.fake.calls = 0;
  CHECK(run(*plan, 100, 0));
  CHECK(at.fake.calls == 1);
}

TEST_CASE("a plan made again has the graphs of the one before", "[plan][compile]") {
  Fresh at;
  at.fake.current = FakeDriver::own_context();
  make();
  const int captured = at.fake.graphs.captured;
  CHECK(captured > 0);
  const Made one = make();
  const Made two = make();
  CHECK(at.fake.graphs.captured == captured);
  CHECK(one->program.graphs == two->program.graphs);

  at.fake.current = nullptr;  // another context: others, once
  const Made three = make();
  CHECK(at.fake.graphs.captured == 2 * captured);
  CHECK(three->program.graphs != one->program.graphs);
  const Made four = make();
  CHECK(at.fake.graphs.captured == 2 * captured);
  CHECK(four->program.graphs == three->program.graphs);
  at.fake.stream_context = at.fake.current = FakeDriver::own_context();
  CHECK(run(*one, 100, 0));
  CHECK(by_graph(at.fake) == 2);
  CHECK(run(*three, 100, 0));
  CHECK(by_graph(at.fake) == 2);
}

TEST_CASE("graphs of a plan that is kept are left alone once their context is gone",
          "[plan][compile]") {
  Fresh at;
  make();  // in the primary context, which nobody holds after it
  CHECK(at.fake.primaries_released == at.fake.primaries_retained);
  const std::size_t made = at.fake.graphs.executables;
  CHECK(made > 0);
  ++at.fake.resets;  // it comes back under another id
  const Made again = make();
  CHECK(at.fake.graphs.executables == 2 * made);
  at.fake.current = FakeDriver::primary(0);
  CHECK(run(*again, 100, 0));
  CHECK(by_graph(at.fake) == 2);
  plan::forget_all();
  CHECK(at.fake.graphs.executables == 2 * made);  // `again` uses its own
  CHECK(at.fake.graphs.too_late == 0);
}
