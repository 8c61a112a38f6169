// Strategy unit_beta: which way a run goes, on the host and on a GPU.
#include "strategy/unit_beta.hpp"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "launch/graph_pool.hpp"
#include "support/rig.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;
using kda::strategy::unit_beta;

TEST_CASE("a beta without a sigmoid is first taken for at most 1", "[strategy]") {
  struct Row {
    const char* words;
    int by;
    std::vector<std::string> stages;
  };
  for (const Row& row : std::vector<Row>{
           {"T=8192 H=64 beta_logit=0",
            1,
            {"forward", "range", "prepare_again", "recurrence_again"}},
           {"T=8192 H=24 beta_logit=0",
            2,
            {"prepare", "recurrence", "range", "prepare_again", "recurrence_again"}},
           {"T=8192 H=4 beta_logit=0",
            3,
            {"prepare", "walk", "correct", "range", "prepare_again", "recurrence_again"}}}) {
    INFO(row.words);
    const Problem problem = problem_in_words(row.words);
    REQUIRE(unit_beta.applicable(problem, h200()));
    const tunable::Values values = unit_beta.defaults(problem, h200());
    CHECK(values == tunable::Values{{"by", row.by}});
    const auto recipe = unit_beta.compose(problem, h200(), values);
    REQUIRE(recipe);
    std::vector<std::string> names;
    for (const compose::Stage& stage : recipe->stages) {
      names.push_back(stage.name);
      const bool again = stage.name.ends_with("_again");
      CHECK((stage.prelude.find("#define KDA_GUARDED 1\n") != std::string::npos) == again);
      const bool looks = stage.name == "range";
      CHECK((stage.prelude.find(".beta_at_most_one = true") != std::string::npos) ==
            (!again && !looks));
    }
    CHECK(names == row.stages);
    // The bug: a kept graph took four kernels, so a run launched these one by one, in 20 us for 8.
    CHECK(names.size() <= launch::GraphPool::kMostKernels);
  }
}

TEST_CASE("unit_beta refuses what it does not serve, naming it", "[strategy]") {
  const auto refused = [](const char* words, const char* target, const char* part) {
    INFO(words);
    const Status status = unit_beta.applicable(problem_in_words(words), *device::parse(target));
    CHECK(status.code() == Code::unsupported);
    CHECK_THAT(status.message(), contains("strategy unit_beta: "));
    CHECK_THAT(status.message(), contains(part));
  };
  refused("H=64", "h200", "without a sigmoid");
  refused("H=64 beta_logit=0 beta_most_1=1", "h200", "or a promise");
  refused("H=64 beta_logit=0 pool=1 ht=1", "h200", "no state pools");
  refused("H=64 beta_logit=0 varlen=1 N=9 mixed=1", "h200", "mixed_lengths");
  refused("H=64 beta_logit=0 qkv=f16", "h200", "bf16");
  refused("H=64 beta_logit=0 K=96", "h200", "key_dim 64 or 128");
  refused("H=64 beta_logit=0", "sm_89", "sm_90");
  const auto recipe =
      unit_beta.compose(problem_in_words("H=64 V=64 beta_logit=0"), h200(), {{"by", 1}});
  REQUIRE_FALSE(recipe);
  CHECK_THAT(recipe.status().message(), contains("by=1: strategy fused"));
}

// A run with the promise kept has the bits of that way's strategy, and one with a single beta out
// of range, wherever that lies, those of chunk_wgmma.
TEST_CASE("which way a run goes follows from its betas", "[gpu][sanitize]") {
  const Gpu gpu;
  const auto outputs_of = [&](const Trial& one, const reference::Tensors& tensors,
                              const char* strategy, const char* tuning, bool promised) {
    Trial asked = one;
    asked.problem.beta_at_most_one = promised;
    Options options;
    options.strategy = strategy;
    options.tuning = tuning;
    const Result<Plan> plan = Plan::make(asked.problem, options);
    INFO(strategy << " " << tuning);
    REQUIRE(plan);
    Rig rig(gpu, asked, tensors);
    CHECK(rig.run(*plan) == "");
    return rig.outputs();
  };
  const auto same = [](const reference::Outputs& x, const reference::Outputs& y) {
    return x.o == y.o && x.final_state == y.final_state;
  };
  for (const char* words : {"varlen=1 ", "varlen=1 K=64 g=f32 gate=log_decay ", "varlen=0 "}) {
    Trial one = complete(
        trial(std::string(words) + "V=128 H=2 HV=4 beta=f32 beta_logit=0", {100, 100, 100}));
    Truth truth(one);
    const std::size_t betas = truth.tensors().beta.size() / sizeof(float);
    for (const bool in_place : {false, true}) {
      one.in_place_state = in_place;
      const reference::Outputs exact = outputs_of(one, truth.tensors(), "chunk_wgmma", "", false);
      for (const auto& [by, way] : {std::pair{"by=1", "fused"}, std::pair{"by=2", "chunk_wgmma"},
                                    std::pair{"by=3", "segments"}}) {
        INFO(words << by << " in place " << in_place);
        const reference::Outputs kept =
            in_place ? exact : outputs_of(one, truth.tensors(), way, "", true);
        CHECK(same(outputs_of(one, truth.tensors(), "unit_beta", by, false), kept));
      }
      for (const std::size_t at : {std::size_t{0}, betas / 2, betas - 1}) {
        for (const float beta : {1.5F, -0.25F}) {
          INFO(words << "beta " << at << " is " << beta << ", in place " << in_place);
          reference::Tensors tensors = truth.tensors();
          std::memcpy(tensors.beta.data() + at * sizeof beta, &beta, sizeof beta);
          const reference::Outputs any = outputs_of(one, tensors, "chunk_wgmma", "", false);
          CHECK(same(outputs_of(one, tensors, "unit_beta", "", false), any));
        }
      }
    }
  }
}

// Both ways in every layout, beside NaN that is nobody's, and with offsets that make no sense.
TEST_CASE("unit_beta in odd places", "[gpu]") {
  std::vector<Trial> trials;
  for (const bool beyond : {false, true}) {
    reference::InputSpec spec;
    if (beyond) spec.beta = 1.7;
    for (const char* words :
         {"varlen=1 ", "varlen=1 cu_seqlens=i32 g=f32 beta=bf16 gate=log_decay ",
          "varlen=0 beta=f16 K=64 "}) {
      const bool dense = std::string(words).find("varlen=0") != std::string::npos;
      Trial one = trial(std::string(words) + "V=128 HV=4 beta_logit=0",
                        dense ? std::vector<std::int64_t>{120, 120, 120}
                              : std::vector<std::int64_t>{300, 0, 33, 129},
                        spec);
      if (!dense) one.tail = 70;
      for (const Layout layout :
           {Layout::contiguous, Layout::heads_first, Layout::sliced, Layout::gapped}) {
        one.layout = layout;
        trials.push_back(one);
      }
      one.in_place_state = true;
      one.misaligned = 1;
      trials.push_back(one);
      if (dense) continue;
      one.cu_seqlens = {0, 300, 100, 120, 5000};
      trials.push_back(one);
      one.cu_seqlens = {50, 200, 20, 20, 400};
      trials.push_back(one);
    }
  }
  const Tally tally = sweep("odd places", trials, {{"unit_beta", ""}});
  CHECK(tally.failed == 0);
  CHECK(tally.refused == 0);
  CHECK(tally.passed == static_cast<int>(trials.size()));
}
