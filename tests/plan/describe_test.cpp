#include <string>

#include "plan/plan.hpp"
#include "problem/problem.hpp"
#include "strategy/table.hpp"
#include "support/catch.hpp"

using namespace kda;

TEST_CASE("a plan describes itself to people", "[plan]") {
  program::Program program;
  program.recipe.tuning = {{"chunk", 32}, {"shards", 2}};
  program.recipe.workspace_bytes = 4096;
  program::Kernel kernel;
  kernel.stage.name = "prepare";
  kernel.stage.threads = 128;
  kernel.stage.shared_bytes = 20480;
  kernel.path = "sm80/chunk/prepare.cu";
  kernel.resources = {.registers = 96,
                      .spill_bytes = 8,
                      .stack_bytes = 16,
                      .static_shared_bytes = 1024,
                      .compile_milliseconds = 312.4};
  kernel.origin = cache::Origin::built;
  program.kernels.push_back(kernel);
  kernel.stage.name = "recurrence";
  kernel.resources.serialized_wgmma = 1;
  kernel.origin = cache::Origin::disk;
  program.kernels.push_back(kernel);

  plan::Choice choice{};
  choice.strategy = strategy::find("chunk");
  choice.strategy_origin = plan::Origin::cost_model;
  choice.tuning_origin = plan::Origin::forced;
  choice.microseconds = 123.45;
  choice.passed_over = {"recurrent (expected 9000.0 us)"};
  const Plan::Impl plan{*problem::complete({.heads = 2, .max_tokens = 64}), *device::parse("h200"),
                        std::move(choice), std::move(program)};

  const std::string text = plan::describe(plan);
  CHECK_THAT(text, test::contains("NVIDIA H200 (sm_90a), named and not present"));
  CHECK_THAT(text, test::contains("T=64 N=1 H=2 HV=2 K=128 V=128"));
  CHECK_THAT(text, test::contains("strategy   chunk (cost model; expected 123."));
  CHECK_THAT(text, test::contains("tuning     chunk=32 shards=2 (forced)"));
  CHECK_THAT(text, test::contains("recurrent (expected 9000.0 us)"));
  CHECK_THAT(text, test::contains("workspace  4096 bytes"));
  CHECK_THAT(text, test::contains("prepare: sm80/chunk/prepare.cu, 128 threads, 96 registers, 8 "
                                  "bytes spilled, 1024 + 20480 bytes of shared memory (static + "
                                  "dynamic), compiled in 312 ms\n"));
  CHECK_THAT(text,
             test::contains("from the disk cache (compiled in 312 ms), its wgmma serialized by "
                            "ptxas (a newer NVRTC may not)"));
  CHECK_THAT(text, !test::contains("lengths "));
}

TEST_CASE("a plan says where its times expected are no run's", "[plan]") {
  plan::Choice choice{};
  choice.strategy = strategy::find("chunk");
  const Plan::Impl plan{
      *problem::complete({.heads = 8, .max_tokens = 1024, .max_sequences = 64, .varlen = true}),
      *device::parse("h200"),
      std::move(choice),
      {}};
  CHECK_THAT(plan::describe(plan),
             test::contains("lengths    16.0 tokens a sequence on the average"));
}
