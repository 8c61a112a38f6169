// States in place: what a run leaves there the next one begins from, whatever of the next has
// begun before this one ended.
#include <functional>
#include <string>
#include <vector>

#include "support/device_memory.hpp"
#include "support/rig.hpp"
#include "support/scratch.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

struct Chained {
  const char* words;
  std::vector<std::int64_t> lengths;
  const char* strategy;
  const char* tuning;
};

std::vector<Chained> chained() {
  const std::vector<std::int64_t> equal(32, 32);
  std::vector<std::int64_t> uneven;
  for (int n = 0; n < 32; ++n) uneven.push_back(n * 37 % 129);
  return {
      // Chains that bring their states before their prepare stage has ended.
      {"HV=8 K=128 V=128 N=32 T=1024 varlen=1", equal, "chunk_wgmma", "load_stages=3"},
      {"HV=8 K=128 V=128 N=32 T=4096 varlen=1", uneven, "chunk_wgmma", "load_stages=3"},
      // Chains beside their prepare stage, which may begin before the run before has ended.
      {"K=128 V=128 T=700", {700}, "chunk_wgmma", "stages_at_once=2"},
      {"K=128 V=128 N=4 T=2048 varlen=1", {1000, 0, 33, 1015}, "chunk_wgmma", "stages_at_once=2"},
      {"K=128 V=128 T=700", {700}, "segments", ""},
      {"K=128 V=128 N=32 T=1024 varlen=1", equal, "chunk", ""},
      {"HV=8 K=128 V=128 N=64", std::vector<std::int64_t>(64, 1), "recurrent", ""},
  };
}

}  // namespace

TEST_CASE("states in place go from run to run without a wait between", "[gpu][in_place]") {
  if (!on_device()) return;
  const Gpu gpu;
  const launch::Driver& driver = gpu.driver();
  for (const Chained& one : chained()) {
    INFO(one.words << " | " << one.strategy << " " << one.tuning);
    Trial in_place = trial(one.words, one.lengths);
    in_place.in_place_state = true;
    in_place = complete(in_place);
    const auto plan =
        Plan::make(in_place.problem, {.strategy = one.strategy, .tuning = one.tuning});
    INFO(plan.status().message());
    REQUIRE(plan);
    Truth truth(in_place);
    Rig rig(gpu, in_place, truth.tensors());
    CHECK(rig.run(*plan) == "");
    CHECK(truth.judge(rig.outputs()) == "");

    const DeviceMemory workspace(gpu, plan->workspace_bytes());
    constexpr int times = 6;
    const auto run = [&](bool waits) {
      for (int i = 0; i < times; ++i) {
        CHECK(plan->run(rig.forward(), workspace.data(), workspace.bytes(), gpu.stream()));
        if (waits) gpu.synchronize();
      }
    };
    const auto bits_after = [&](const std::function<void()>& what) {
      rig.reset();
      gpu.synchronize();
      what();
      gpu.synchronize();
      return rig.output_bits();
    };
    const auto expected = bits_after([&] { run(true); });
    for (int round = 0; round < 4; ++round) {
      CHECK((bits_after([&] { run(false); }) == expected));  // in brackets: else both are printed
    }
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    must(driver.StreamBeginCapture(gpu.stream(), CU_STREAM_CAPTURE_MODE_GLOBAL), "begin capture");
    run(false);
    must(driver.StreamEndCapture(gpu.stream(), &graph), "end capture");
    must(driver.GraphInstantiate(&executable, graph, 0), "instantiate");
    const auto launch = [&] {
      must(driver.GraphLaunch(executable, gpu.stream()), "launch the graph");
    };
    CHECK((bits_after(launch) == expected));
    CHECK((bits_after(launch) == expected));
    must(driver.GraphExecDestroy(executable), "destroy the graph");
    must(driver.GraphDestroy(graph), "destroy the graph");
    CHECK(rig.damage() == "");
  }
}
