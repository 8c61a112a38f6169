// Plans as users make them: the planner chooses, the cases of the table run, refusals leave
// everything as it was.
#include <optional>
#include <utility>

#include "reference/cases.hpp"
#include "support/rig.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

std::vector<Trial> small_cases() {
  std::vector<Trial> out;
  for (const reference::Case& row : reference::cases()) {
    if (row.tokens * row.value_heads > 8192 * 12) continue;  // the reference computes every head
    for (const auto gate : {reference::GatePattern::strong, reference::GatePattern::weak,
                            reference::GatePattern::mixed}) {
      Trial one;
      one.problem = reference::problem_of(row);
      const auto cu_seqlens = reference::cu_seqlens_of(row);
      for (int n = 0; n < row.sequences; ++n)
        one.lengths.push_back(cu_seqlens[n + 1] - cu_seqlens[n]);
      one.inputs.gate = gate;
      out.push_back(one);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("the named cases, as the planner runs them", "[gpu]") {
  check_on_device("cases", small_cases(), {{"", ""}});
}

TEST_CASE("the named cases, by each strategy", "[gpu]") { check_on_device("cases", small_cases()); }

TEST_CASE("a refused run has enqueued nothing", "[gpu]") {
  if (!on_device()) return;
  const Trial one = complete(trial("K=128 V=128 varlen=1", {100, 50}));
  const Gpu gpu;
  Truth truth(one);
  const Result<Plan> plan = Plan::make(one.problem);
  INFO(plan.status().message());
  REQUIRE(plan);
  Rig rig(gpu, one, truth.tensors());
  const std::size_t needed = plan->workspace_bytes();

  const auto refused = [&](auto&& spoil) {
    const auto run = [&](const Forward& forward, void* workspace, std::size_t bytes,
                         Stream stream) {
      Forward wrong = forward;
      spoil(wrong, workspace, bytes);
      return plan->run(wrong, workspace, bytes, stream);
    };
    CHECK_THAT(rig.run(run, needed), contains("invalid_argument: "));
    const auto bits = rig.output_bits();
    for (const std::byte b : bits)
      if (b != std::byte{kPoison}) FAIL("an output was written");
    CHECK(rig.damage() == "");
  };
  refused([](Forward& f, void*&, std::size_t&) { f.q = nullptr; });
  refused([](Forward& f, void*&, std::size_t&) { f.final_state = nullptr; });
  refused([](Forward& f, void*&, std::size_t&) { f.cu_seqlens = nullptr; });
  refused([](Forward& f, void*&, std::size_t&) {
    f.v = static_cast<const std::byte*>(f.v) + 1;  // half an element
  });
  refused([](Forward& f, void*&, std::size_t&) { f.tokens = 151; });
  refused([](Forward& f, void*&, std::size_t&) { f.tokens = -1; });
  refused([](Forward& f, void*&, std::size_t&) { f.sequences = 3; });
  refused([](Forward& f, void*&, std::size_t&) { f.o_strides = {0, 1, 128}; });
  if (needed > 0) {
    refused([](Forward&, void*&, std::size_t& bytes) { --bytes; });
    refused([](Forward&, void*& workspace, std::size_t&) { workspace = nullptr; });
    refused([](Forward&, void*& workspace, std::size_t&) {
      workspace = static_cast<std::byte*>(workspace) + 16;
    });
  }
  CHECK(rig.run(*plan) == "");  // and the plan still runs
  CHECK(truth.judge(rig.outputs()) == "");
}

TEST_CASE("a plan for a named device refuses to run", "[gpu]") {
  if (!on_device()) return;
  const Trial one = complete(trial("", {40}));
  Options options;
  options.target = "sm_90a";
  const Result<Plan> plan = Plan::make(one.problem, options);
  INFO(plan.status().message());
  REQUIRE(plan);
  const Gpu gpu;
  Truth truth(one);
  Rig rig(gpu, one, truth.tensors());
  CHECK_THAT(rig.run(*plan), contains("unsupported: "));
}

TEST_CASE("plans outlive the context they were made with or without", "[gpu]") {
  if (!on_device()) return;
  const Trial one = complete(trial("", {40}));
  const auto make = [&] {
    Result<Plan> plan = Plan::make(one.problem);
    INFO(plan.status().message());
    REQUIRE(plan);
    return *std::move(plan);
  };
  std::optional<Plan> plan;
  SECTION("none is current on the thread") { plan = make(); }
  SECTION("one that goes right after") {
    const Gpu gpu;
    plan = make();
  }
  SECTION("one that is gone already, and still current") {
    const launch::Driver& driver = **launch::driver();
    CUcontext gone = nullptr;
    must(driver.DevicePrimaryCtxRetain(&gone, 0), "retain");
    must(driver.CtxSetCurrent(gone), "make current");
    must(driver.DevicePrimaryCtxRelease(0), "release");
    plan = make();
  }
  for (int times = 0; times < 2; ++times) {
    const Gpu gpu;
    Truth truth(one);
    Rig rig(gpu, one, truth.tensors());
    CHECK(rig.run(*plan) == "");
    CHECK(truth.judge(rig.outputs()) == "");
  }
}
