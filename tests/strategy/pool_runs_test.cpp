// Runs on pools as an engine makes them: replayed graphs whose slots change, many streams at once,
// slots named twice, a run resumed from a checkpoint.
#include <thread>

#include "support/part.hpp"
#include "support/pool_sweep.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

PoolTrial decode(const std::string& words, int sequences, SlotsSpec spec = {}) {
  PoolTrial out;
  out.trial = trial("pool=1 K=128 V=128 HV=4 " + words, std::vector<std::int64_t>(sequences, 1));
  spec.sequences = sequences;
  out.slots = make_slots(spec);
  return complete(out);
}

}  // namespace

TEST_CASE("a captured decode replays with other slots and fewer sequences", "[gpu]") {
  for (const char* words : {"", "varlen=1 zero_padding=1 slots=i64"}) {
    const Gpu gpu;
    const launch::Driver& driver = gpu.driver();
    const PoolTrial one = decode(words, 40, {.prefixes = true});
    PoolRig rig(gpu, one);
    const Plan plan = plan_of(one.trial.problem, "recurrent");
    const DeviceMemory workspace(gpu, plan.workspace_bytes());

    // Behind a memset and two joined streams: what a launch that overlaps its predecessor must
    // bear.
    const DeviceMemory scratch(gpu, 4096);
    CUstream side = nullptr;
    CUevent fork = nullptr, join = nullptr;
    must(driver.StreamCreate(&side, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must(driver.EventCreate(&fork, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    must(driver.EventCreate(&join, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    const auto address = reinterpret_cast<CUdeviceptr>(scratch.data());
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    must(driver.StreamBeginCapture(gpu.stream(), CU_STREAM_CAPTURE_MODE_GLOBAL), "begin capture");
    must(driver.EventRecord(fork, gpu.stream()), "fork");
    must(driver.StreamWaitEvent(side, fork, 0), "fork");
    must(driver.MemsetD8Async(address, 1, 1024, side), "memset");
    must(driver.MemsetD8Async(address + 2048, 2, 1024, gpu.stream()), "memset");
    must(driver.EventRecord(join, side), "join");
    must(driver.StreamWaitEvent(gpu.stream(), join, 0), "join");
    const Status status =
        plan.run(rig.forward(), workspace.data(), plan.workspace_bytes(), gpu.stream());
    must(driver.StreamEndCapture(gpu.stream(), &graph), "end capture");
    INFO(status.message());
    REQUIRE(status);
    must(driver.GraphInstantiate(&executable, graph, 0), "instantiate");

    for (int replay = 0; replay < 6; ++replay) {
      reference::Slots slots =
          make_slots({.sequences = 40, .prefixes = true, .seed = 100U + replay});
      for (int n = 40 - 5 * replay; n < 40; ++n) slots.indices[n] = slots.initial_indices[n] = -1;
      rig.change(slots);
      gpu.synchronize();
      must(driver.GraphLaunch(executable, gpu.stream()), "launch the graph");
      gpu.synchronize();
      CHECK(rig.judge() == "");
    }
    must(driver.GraphExecDestroy(executable), "destroy the graph");
    must(driver.GraphDestroy(graph), "destroy the graph");
    must(driver.EventDestroy(fork), "destroy");
    must(driver.EventDestroy(join), "destroy");
    must(driver.StreamDestroy(side), "destroy");
  }
}

TEST_CASE("many threads decode from pools of their own", "[gpu]") {
  const PoolTrial one = decode("drafts=1 state=bf16", 9, {.columns = 2, .accepted = true});
  const Gpu gpu;
  const Plan plan = plan_of(one.trial.problem, "");
  std::vector<std::string> failures(12);
  std::vector<std::thread> threads;
  for (std::string& failure : failures)
    threads.emplace_back([&] {
      try {
        const Gpu own;
        PoolRig rig(own, one);
        for (int times = 0; times < 20 && failure.empty(); ++times) failure = rig.run(plan);
      } catch (const std::exception& error) {
        failure = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("two sequences that name one slot leave the others alone", "[gpu]") {
  const Gpu gpu;
  for (const Variant& variant : every_strategy())
    for (const bool apart : {false, true}) {
      PoolTrial one = decode("", 16);
      one.apart = apart;
      for (int n = 0; n < 8; ++n) one.slots.indices[n] = 3;
      Options options;
      options.strategy = variant.strategy;
      const Result<Plan> plan = Plan::make(one.trial.problem, options);
      if (!plan && plan.status().code() == Code::unsupported) continue;
      REQUIRE(plan);
      PoolRig rig(gpu, one);
      INFO(variant.strategy);
      // In place one of the eight may start from what another left; apart none can.
      const std::string failure = rig.run(*plan);
      if (apart) CHECK(failure == "");
      CHECK(rig.judge_pools() == "");
    }
}

TEST_CASE("a run resumed from a checkpoint is the run that never stopped", "[gpu]") {
  const Gpu gpu;
  for (const char* type : {"bf16", "f32"})
    for (const Variant& variant : every_strategy()) {
      // Slot 0 is the sequence's own, 1 and 2 its checkpoints after 64 and 128 of 200 tokens.
      PoolTrial whole;
      whole.trial =
          trial(all_types(type) + "pool=1 checkpoint=64 K=128 V=128 HV=4 h0=1 ht=1", {200});
      whole.slots = {.slots = 4,
                     .columns = 1,
                     .indices = {0},
                     .initial_indices = {-1},
                     .checkpoint_columns = 2,
                     .checkpoints = {1, 2}};
      whole = complete(whole);
      Options options;
      options.strategy = variant.strategy;
      const Result<Plan> plan = Plan::make(whole.trial.problem, options);
      if (!plan && plan.status().code() == Code::unsupported) continue;
      REQUIRE(plan);
      INFO(variant.strategy << " " << type);
      PoolRig rig(gpu, whole);
      CHECK(rig.run(*plan) == "");

      // The last 72 tokens again, from slot 2 into slot 0; o and the state must judge the same.
      const DeviceMemory workspace(gpu, plan->workspace_bytes());
      const DeviceMemory start(gpu, 4);
      const std::int32_t two = 2;
      must(gpu.driver().MemcpyHtoD(reinterpret_cast<CUdeviceptr>(start.data()), &two, 4), "copy");
      Forward rest = part_of(whole.trial.problem, rig.forward(), 128, 200);
      rest.pool.initial_indices = start.data();
      // Its checkpoint after 64 would be the whole run's after 192: none of the two columns.
      const DeviceMemory none(gpu, 8);
      const std::int32_t negative[2] = {-1, -1};
      must(gpu.driver().MemcpyHtoD(reinterpret_cast<CUdeviceptr>(none.data()), negative, 8),
           "copy");
      rest.pool.checkpoints.data = none.data();
      const Status status =
          plan->run(rest, workspace.data(), plan->workspace_bytes(), gpu.stream());
      INFO(status.message());
      REQUIRE(status);
      gpu.synchronize();
      CHECK(rig.judge() == "");
    }
}
