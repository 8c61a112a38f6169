// Which kernels the sweeps compile (support/new_kernels.hpp).
#include "support/new_kernels.hpp"

#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "compile/nvrtc.hpp"
#include "plan/choose.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;

TEST_CASE("a kernel is new where it brings two values together", "[strategy][compile]") {
  const Scratch cache;
  NewKernels kernels(cache.path());
  const auto stages = [&](const std::string& more, const char* target) {
    const NewOnes made = kernels.make(
        {{problem_in_words("H=1 K=16 " + more), target, "chunk", "chunk=16 load_stages=2"}})[0];
    INFO(more << ": " << made.status.message());
    REQUIRE(made.status);
    CHECK_THAT(made.tuning, contains("chunk=16 prepare_threads="));
    std::string names;
    for (const program::Kernel& kernel : made.kernels) {
      CHECK(kernel.resources.registers > 0);
      names += kernel.stage.name + " ";
    }
    return names;
  };
  CHECK(stages("V=16", "sm_89") == "prepare recurrence ");
  CHECK(stages("V=16 T=128 N=2", "sm_89").empty());  // not what kernels are specialised on
  CHECK(stages("V=16 h0=1", "sm_89") == "recurrence ");
  CHECK(stages("V=32", "sm_89") == "recurrence ");
  CHECK(stages("V=16 g=f32", "sm_89") == "prepare recurrence ");
  CHECK(stages("g=f32 h0=1 V=32", "sm_90a") == "prepare recurrence ");
  CHECK(stages("V=32 g=f32", "sm_89").empty());  // each two were there, if never all at once
  // The bug: what a line leaves out was no value, so that groups that raise no flags were nothing
  // new after those that do.
  const auto walkers = [&](const char* strategy, const char* tuning) {
    const Problem problem = problem_in_words("H=1 T=2048 K=64 V=64");
    const NewOnes made = kernels.make({{problem, "sm_90a", strategy, tuning}})[0];
    std::string names;
    for (const program::Kernel& kernel : made.kernels) names += kernel.stage.name + " ";
    return names;
  };
  CHECK_THAT(walkers("chunk_wgmma", "stages_at_once=2"), contains("prepare"));
  CHECK_THAT(walkers("segments", "segment=32"), contains("prepare"));
  // Of several those that bring most are chosen first, and then none of them brings anything.
  std::vector<Wanted> several;
  for (const char* words : {"V=16", "V=48 h0=1", "V=48 ht=1", "V=48 h0=1 ht=1", "V=48 g=f16 h0=1"})
    several.push_back({problem_in_words(std::string("H=1 K=16 ") + words), "sm_89", "chunk",
                       "chunk=16 load_stages=2"});
  std::size_t chosen = 0;
  for (const NewOnes& made : kernels.make(several)) chosen += made.kernels.size();
  CHECK(chosen > 2);
  for (const NewOnes& made : kernels.make(several)) {
    CHECK(made.status);
    CHECK(made.kernels.empty());
  }
  const NewOnes refused =
      kernels.make({{problem_in_words("T=64 H=1"), "sm_89", "chunk_wgmma", ""}})[0];
  CHECK(refused.status.code() == Code::unsupported);
  CHECK(refused.kernels.empty());
}

// Or sweeps would leave out kernels that differ.
TEST_CASE("what prepares is told nothing by states", "[strategy][compile]") {
  struct Case {
    const char *target, *strategy, *tuning;
  };
  std::set<std::string> templates;
  for (const Case& each : {Case{"sm_89", "chunk", "chunk=32 prepare_threads=128"},
                           Case{"sm_90a", "chunk_wgmma", "stages_at_once=1 load_stages=2"},
                           Case{"sm_90a", "chunk_wgmma", "stages_at_once=2 load_stages=2"}}) {
    const auto code = [&](const std::string& words) {
      const Options options{
          .target = each.target, .strategy = each.strategy, .tuning = each.tuning};
      const auto device = plan::device_of(options);
      REQUIRE(device);
      const auto choice =
          plan::choose(problem_in_words("T=64 H=1 K=64 varlen=1 " + words), *device, options);
      INFO(choice.status().message());
      REQUIRE(choice);
      const auto unit = program::unit_of(choice->recipe.stages.at(0), *device);
      REQUIRE(unit);
      templates.insert(unit->path);
      const auto ptx = compile::compile_to_ptx(unit->job, program::headers());
      REQUIRE(ptx);
      std::string text;
      for (const std::string_view line : base::split(*ptx, '\n')) {
        // The values of constants `shape` and `values`, which no instruction reads.
        const bool constant =
            line.starts_with(".global") && (line.find("kda5shapeE") != std::string_view::npos ||
                                            line.find("kda6valuesE") != std::string_view::npos);
        if (!constant) text.append(line) += '\n';
      }
      return text;
    };
    INFO(each.strategy << " " << each.tuning);
    CHECK((code("V=64") == code("V=100 h0=1 ht=1 state=bf16 layout=key_first pool=1 slots=i64 "
                                "checkpoint=64 zero_padding=1")));
  }
  CHECK(templates == std::set<std::string>{"sm80/chunk/prepare.cu", "sm90/chunk/prepare_group.cu",
                                           "sm90/chunk/prepare_walking.cu"});
}
