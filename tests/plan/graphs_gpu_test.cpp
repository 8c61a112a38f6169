// Plans run by kept graphs do what they do without, on the device: over sizes and tensors that
// change, many runs pending at once, in captures, and in many threads on more streams than graphs.
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plan/plan.hpp"
#include "support/rig.hpp"
#include "support/scratch.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;

namespace {

using Made = std::unique_ptr<const Plan::Impl>;

struct Way {
  const char* strategy;
  const char* tuning;
  std::size_t kernels;
};
constexpr Way kWays[] = {{"chunk", "", 2},
                         {"chunk_wgmma", "stages_at_once=1", 2},
                         {"chunk_wgmma", "stages_at_once=2", 2},
                         {"chunk_wgmma", "short_tokens=16", 3},
                         {"chunk_wgmma", "short_tokens=16 stages_at_once=2", 3},
                         {"segments", "", 3},
                         {"segments", "chunk=16 prepare_threads=128 segment=128", 5}};

constexpr const char* kWords = "K=128 V=128 H=2 HV=4 varlen=1 T=4096 N=16";

// Of one problem: their plan is the same.
std::vector<Trial> trials() {
  std::vector<Trial> out;
  for (const std::vector<std::int64_t>& lengths :
       {std::vector<std::int64_t>{2100, 1, 16, 17}, {130, 0, 70}, {64}, {1, 1, 1, 900, 33}, {4000}})
    out.push_back(complete(trial(kWords, lengths)));
  return out;
}

// Null where the device is not for it.
Made make(const Problem& problem, const Way& way) {
  auto made = plan::make_all({&problem, 1}, {.strategy = way.strategy, .tuning = way.tuning});
  if (!made.front() && made.front().status().code() == Code::unsupported) return nullptr;
  INFO(way.strategy << " " << way.tuning << ": " << made.front().status().message());
  REQUIRE(made.front());
  REQUIRE((*made.front())->program.kernels.size() == way.kernels);
  return std::move(*made.front());
}

// The same plan with its graphs and without.
struct Pair {
  Made kept, plain;
};
std::optional<Pair> pair_of(const Problem& problem, const Way& way) {
  Pair pair{make(problem, way), nullptr};
  if (!pair.kept) return std::nullopt;
  INFO(way.strategy << " " << way.tuning);
  REQUIRE(pair.kept->program.graphs != nullptr);
  const Environment off("KDA_KEEP_GRAPHS", "0");
  pair.plain = make(problem, way);
  REQUIRE(pair.plain);
  REQUIRE(pair.plain->program.graphs == nullptr);
  return pair;
}

std::size_t bytes_of(const Made& plan) { return plan->program.recipe.workspace_bytes; }

std::string run(Rig& rig, const Made& plan, int times = 1) {
  const auto run = [&](const Forward& forward, void* workspace, std::size_t bytes, Stream stream) {
    Status status;
    for (int i = 0; i < times && status; ++i) {
      status = plan::run(*plan, forward, workspace, bytes, stream);
    }
    return status;
  };
  return rig.run(run, bytes_of(plan));
}

}  // namespace

TEST_CASE("what these tests run by graphs has so many kernels on an H200", "[plan]") {
  for (const Way& way : kWays) {
    INFO(way.strategy << " " << way.tuning);
    const auto choice = plan::choose(trials().front().problem, h200(),
                                     {.strategy = way.strategy, .tuning = way.tuning});
    INFO(choice.status().message());
    REQUIRE(choice);
    CHECK(choice->recipe.stages.size() == way.kernels);
  }
}

TEST_CASE("a plan run by graphs gives the bits that it gives without", "[gpu]") {
  if (!on_device()) return;
  const Gpu gpu;
  int ways = 0;
  for (const Way& way : kWays) {
    const std::optional<Pair> pair = pair_of(trials().front().problem, way);
    if (!pair) continue;
    ++ways;
    for (int again = 0; again < 2; ++again) {
      for (const Trial& one : trials()) {
        INFO(way.strategy << " " << way.tuning << " | " << to_text(one));
        Truth truth(one);
        Rig rig(gpu, one, truth.tensors());
        CHECK(run(rig, pair->kept) == "");
        CHECK(truth.judge(rig.outputs()) == "");
        const auto bits = rig.output_bits();
        CHECK(run(rig, pair->plain) == "");
        CHECK((rig.output_bits() == bits));
      }
    }
  }
  CHECK(ways > 1);
}

TEST_CASE("runs of other sizes and tensors, all pending at once, keep apart", "[gpu]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const Way& way : kWays) {
    const std::vector<Trial> all = trials();
    const std::optional<Pair> pair = pair_of(all.front().problem, way);
    if (!pair) continue;
    INFO(way.strategy << " " << way.tuning);
    std::vector<Truth> truths;
    truths.reserve(all.size());
    std::vector<std::unique_ptr<Rig>> rigs;
    std::vector<DeviceMemory> workspaces;
    std::vector<std::vector<std::byte>> expected;
    for (const Trial& one : all) {
      truths.emplace_back(one);
      rigs.push_back(std::make_unique<Rig>(gpu, one, truths.back().tensors()));
      workspaces.emplace_back(gpu, bytes_of(pair->kept));
      CHECK(run(*rigs.back(), pair->plain) == "");
      expected.push_back(rigs.back()->output_bits());
      rigs.back()->reset();
    }
    gpu.synchronize();
    for (int times = 0; times < 10; ++times) {
      for (std::size_t i = 0; i < rigs.size(); ++i) {
        const Status status = plan::run(*pair->kept, rigs[i]->forward(), workspaces[i].data(),
                                        bytes_of(pair->kept), gpu.stream());
        INFO(status.message());
        REQUIRE(status);
      }
    }
    gpu.synchronize();
    for (std::size_t i = 0; i < rigs.size(); ++i) {
      INFO(to_text(all[i]));
      CHECK((rigs[i]->output_bits() == expected[i]));
      CHECK(rigs[i]->damage() == "");
      CHECK(workspaces[i].canary_damage() == "");
    }
  }
}

TEST_CASE("a plan with kept graphs is captured kernel by kernel, between runs by them", "[gpu]") {
  if (!on_device()) return;
  const Gpu gpu;
  const launch::Driver& driver = gpu.driver();
  for (const Way& way : kWays) {
    const Trial one = trials().front();
    const Made plan = make(one.problem, way);
    if (!plan) continue;
    INFO(way.strategy << " " << way.tuning);
    Truth truth(one);
    Rig rig(gpu, one, truth.tensors());
    CHECK(run(rig, plan, 3) == "");
    const auto expected = rig.output_bits();
    std::size_t nodes = 0;
    const auto replay = [&](const Forward& forward, void* workspace, std::size_t bytes,
                            Stream stream) {
      CUgraph graph = nullptr;
      CUgraphExec executable = nullptr;
      must(driver.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin capture");
      const Status status = plan::run(*plan, forward, workspace, bytes, stream);
      must(driver.StreamEndCapture(stream, &graph), "end capture");
      if (!status) return status;
      must(driver.GraphGetNodes(graph, nullptr, &nodes), "nodes");
      must(driver.GraphInstantiate(&executable, graph, 0), "instantiate");
      for (int times = 0; times < 3; ++times) {
        must(driver.GraphLaunch(executable, stream), "launch");
        const Status between = plan::run(*plan, forward, workspace, bytes, stream);
        if (!between) return between;
      }
      gpu.synchronize();
      must(driver.GraphExecDestroy(executable), "destroy");
      must(driver.GraphDestroy(graph), "destroy");
      return Status();
    };
    CHECK(rig.run(replay, bytes_of(plan)) == "");
    CHECK(nodes == way.kernels);
    CHECK((rig.output_bits() == expected));
  }
}

TEST_CASE("many threads run a plan of several kernels on more streams than it has graphs",
          "[gpu]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const Way& way : kWays) {
    const std::vector<Trial> all = trials();
    const std::optional<Pair> pair = pair_of(all.front().problem, way);
    if (!pair) continue;
    INFO(way.strategy << " " << way.tuning);
    std::vector<std::string> failures(10);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < failures.size(); ++t) {
      threads.emplace_back([&, t] {
        std::string& failure = failures[t];
        try {
          const Gpu own;
          const Trial& one = all[t % all.size()];
          Truth truth(one);
          Rig rig(own, one, truth.tensors());
          failure = run(rig, pair->plain);
          const auto expected = rig.output_bits();
          for (int times = 0; times < 20 && failure.empty(); ++times) {
            failure = run(rig, pair->kept, 5);
            if (failure.empty() && rig.output_bits() != expected) failure = "other bits";
          }
        } catch (const std::exception& error) {
          failure = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& failure : failures) CHECK(failure == "");
  }
}

TEST_CASE("a plan with kept graphs runs before and after a reset of the device", "[gpu]") {
  if (!on_device()) return;
  const Trial one = trials().front();
  Truth truth(one);
  for (const Way& way : kWays) {
    const auto check = [&](const Made& plan) {
      const Gpu gpu;
      Rig rig(gpu, one, truth.tensors());
      CHECK(run(rig, plan) == "");
      CHECK(truth.judge(rig.outputs()) == "");
    };
    INFO(way.strategy << " " << way.tuning);
    Made plan = make(one.problem, way);
    if (!plan) continue;
    check(plan);
    plan = nullptr;
    must((**launch::driver()).DevicePrimaryCtxReset(0), "reset");
    plan = make(one.problem, way);  // the one that is kept, with graphs of the context before
    check(plan);
    plan = nullptr;
  }
}
