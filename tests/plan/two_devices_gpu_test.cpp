// One process, several devices: a plan is of one, kernels and caches are shared.
#include <thread>

#include "launch/driver.hpp"
#include "support/rig.hpp"
#include "support/scratch.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

bool two_devices() {
  if (!on_device()) return false;
  int count = 0;
  must((*launch::driver())->DeviceGetCount(&count), "cuDeviceGetCount");
  if (count < 2) WARN("skipped: there is one device");
  return count > 1;
}

// By several kernels and by one; from several strategies.
std::vector<std::pair<Trial, std::string>> runs() {
  const std::string wide = "K=128 V=128 ";
  return {{trial(wide + "H=4 HV=4", {700}), "chunk_wgmma"},
          {trial(wide + "H=4 HV=4 varlen=1", {300, 1, 99, 0, 40}), "fused"},
          {trial(wide + "H=2", {900}), "segments"},
          {trial("varlen=1", {1, 1, 1, 1}), "recurrent"},
          {trial("qkv=f32 varlen=1", {70, 130}), "chunk"}};
}

// What each of the runs writes on the device; empty where one was refused, which is told.
std::vector<std::vector<std::byte>> bits_of(int ordinal, int repeats, std::string& trouble) {
  const Gpu gpu(ordinal);
  std::vector<std::vector<std::byte>> all;
  for (const auto& [unfinished, strategy] : runs()) {
    const Trial one = complete(unfinished);
    const Result<Plan> plan = Plan::make(one.problem, {.device = ordinal, .strategy = strategy});
    if (!plan) return trouble = plan.status().message(), all;
    Truth truth(one);
    Rig rig(gpu, one, truth.tensors());
    for (int i = 0; i < repeats; ++i) {
      trouble = rig.run(*plan);
      if (trouble.empty()) trouble = truth.judge(rig.outputs());
      if (!trouble.empty()) return all;
    }
    all.push_back(rig.output_bits());
  }
  return all;
}

}  // namespace

TEST_CASE("two devices at once compute the same", "[gpu]") {
  if (!two_devices()) return;
  std::vector<std::vector<std::byte>> bits[2];
  std::string trouble[2];
  std::vector<std::thread> threads;
  for (int device = 0; device < 2; ++device) {
    threads.emplace_back([&, device] { bits[device] = bits_of(device, 5, trouble[device]); });
  }
  for (std::thread& each : threads) each.join();
  CHECK(trouble[0] == "");
  CHECK(trouble[1] == "");
  CHECK(bits[0].size() == runs().size());
  CHECK(bits[0] == bits[1]);
}

TEST_CASE("a plan of a device that is not current is made, and run where it is", "[gpu]") {
  if (!two_devices()) return;
  const Gpu here(0);
  const Gpu there(1);
  for (const auto& [unfinished, strategy] : runs()) {
    const Trial one = complete(unfinished);
    here.make_current();
    const Result<Plan> plan = Plan::make(one.problem, {.device = 1, .strategy = strategy});
    INFO(strategy << ": " << plan.status().message());
    REQUIRE(plan);
    there.make_current();
    Truth truth(one);
    Rig rig(there, one, truth.tensors());
    CHECK(rig.run(*plan) == "");
    CHECK(truth.judge(rig.outputs()) == "");
    // Its stream says where it runs, whichever device is current.
    rig.reset();
    const std::size_t bytes = plan->workspace_bytes();
    const DeviceMemory workspace(there, bytes);
    there.synchronize();
    here.make_current();
    const Status elsewhere = plan->run(rig.forward(), workspace.data(), bytes, there.stream());
    there.make_current();
    there.synchronize();
    INFO(elsewhere.message());
    CHECK(elsewhere);
    CHECK(truth.judge(rig.outputs()) == "");
    CHECK(rig.damage() == "");
  }
}

TEST_CASE("an application's search measures on a device that is not current", "[gpu]") {
  if (!two_devices()) return;
  const Gpu here(0);
  const Scratch folder;
  Options options{.device = 1, .effort = Effort::measure, .time_limit_seconds = 5};
  options.cache_dir = options.wisdom_dir = folder.path();
  const Trial one = complete(trial("H=3 HV=3", {200}));
  const Result<Plan> plan = Plan::make(one.problem, options);
  INFO(plan.status().message());
  REQUIRE(plan);
  CHECK_THAT(plan->describe(), contains("measured now in"));
  CUdevice current = -1;
  must(here.driver().CtxGetDevice(&current), "cuCtxGetDevice");
  CHECK(current == 0);
}
