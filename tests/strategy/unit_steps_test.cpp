// Strategy unit_steps: what its kernels are and are given.
#include "strategy/unit_steps.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "abi/chunk.h"
#include "abi/chunk_wgmma.h"
#include "abi/fused.h"
#include "abi/guard.h"
#include "abi/unit_steps.h"
#include "launch/graph_pool.hpp"
#include "problem/shape.hpp"
#include "strategy/by_lengths.hpp"
#include "strategy/chunk_wgmma.hpp"
#include "strategy/expected.hpp"
#include "strategy/recurrent.hpp"
#include "support/catch.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;
using kda::strategy::unit_steps;

TEST_CASE("steps of the delta rule are first taken for at most one", "[strategy]") {
  struct Row {
    const char* words;
    int by;
    std::vector<std::string> stages;
    const char* promise;
  };
  for (const Row& row : std::vector<Row>{
           {"T=8192 H=64 beta_logit=0",
            1,
            {"forward", "look", "prepare_again", "recurrence_again"},
            ".beta_at_most_one = true"},
           {"T=8192 H=64 l2norm=0",
            1,
            {"forward", "look", "prepare_again", "recurrence_again"},
            ".qk_normalized = true"},
           {"T=8192 H=64 l2norm=0 beta_logit=0 beta_most_1=1",
            1,
            {"forward", "look", "prepare_again", "recurrence_again"},
            ".qk_normalized = true"},
           {"T=8192 H=24 beta_logit=0 l2norm=0",
            2,
            {"prepare", "recurrence", "look", "prepare_again", "recurrence_again"},
            ".beta_at_most_one = true, .l2norm_qk = false, .qk_normalized = true"},
           {"T=8192 H=4 beta_logit=0",
            3,
            {"prepare", "walk", "correct", "look", "prepare_again", "recurrence_again"},
            ".beta_at_most_one = true"},
           {"T=8192 H=64 beta_logit=0 pool=1 h0=1 ht=1",
            1,
            {"keep", "forward", "look", "prepare_again", "recurrence_again"},
            ".beta_at_most_one = true"},
           {"T=8192 H=24 beta_logit=0 pool=1 h0=1 ht=1 checkpoint=64",
            2,
            {"keep", "prepare", "recurrence", "look", "prepare_again", "recurrence_again"},
            ".beta_at_most_one = true"},
           {"T=8192 H=4 beta_logit=0 pool=1 h0=0 ht=1",
            3,
            {"prepare", "walk", "correct", "look", "prepare_again", "recurrence_again"},
            ".beta_at_most_one = true"},
           {"T=8192 H=4 beta_logit=0 pool=1 h0=1 ht=1",
            3,
            {"keep", "prepare", "walk", "correct", "look", "prepare_again", "recurrence_again"},
            ".beta_at_most_one = true"},
           {"T=8192 N=4 H=16 varlen=1 beta_logit=0 pool=1 h0=1 ht=1",
            4,
            {"keep", "forward_alike", "prepare_unlike", "recurrence_unlike", "short_unlike", "look",
             "prepare_again", "recurrence_again"},
            ".beta_at_most_one = true"}}) {
    INFO(row.words);
    const Problem problem = problem_in_words(row.words);
    REQUIRE(unit_steps.applicable(problem, h200()));
    const tunable::Values values = unit_steps.defaults(problem, h200());
    CHECK(values == tunable::Values{{"by", row.by}});
    const auto recipe = unit_steps.compose(problem, h200(), values);
    REQUIRE(recipe);
    std::vector<std::string> names;
    for (const compose::Stage& stage : recipe->stages) {
      names.push_back(stage.name);
      const bool again = stage.name.ends_with("_again");
      CHECK((stage.prelude.find("#define KDA_GUARDED 1\n") != std::string::npos) == again);
      const bool way = stage.name != "look" && stage.name != "keep";
      CHECK((stage.prelude.find(row.promise) != std::string::npos) == (way && !again));
    }
    CHECK(names == row.stages);
    // The bug: a kept graph took four kernels, so a run launched these one by one, in 20 us for 8.
    CHECK(names.size() <= launch::GraphPool::kMostKernels);
  }
  // None has more than both ways by segments, in a pool.
  const Problem most = problem_in_words("T=524288 N=2 H=2 varlen=1 beta_logit=0 pool=1 h0=1 ht=1");
  const auto recipe = unit_steps.compose(most, h200(), {{"by", 4}});
  REQUIRE(recipe);
  CHECK(recipe->stages.size() == launch::GraphPool::kMostKernels);
}

namespace {

// What stage `name` of the problem's recipe is given for a run whose states lie at these addresses,
// its workspace at kWorkspace.
constexpr std::uintptr_t kWorkspace = 1 << 20;

compose::Recipe recipe_of(const std::string& words, int by) {
  INFO(words << ", by=" << by);
  const auto recipe = unit_steps.compose(problem_in_words(words), h200(), {{"by", by}});
  INFO(recipe.status().message());
  REQUIRE(recipe);
  CHECK(recipe->stages.size() <= launch::GraphPool::kMostKernels);
  return *recipe;
}

std::string stages_of(const std::string& words, int by) {
  std::string all;
  for (const compose::Stage& stage : recipe_of(words, by).stages) all += stage.name + ' ';
  return all;
}

template <class Args>
Args bound(const char* words, const char* name, std::uintptr_t begins_at, std::uintptr_t ends_at,
           int by = 1) {
  const Problem problem = problem_in_words(words);
  const compose::Recipe recipe = recipe_of(words, by);
  Forward forward;
  forward.tokens = problem.max_tokens;
  forward.sequences = problem.max_sequences;
  forward.initial_state = reinterpret_cast<const void*>(begins_at);
  forward.final_state = reinterpret_cast<void*>(ends_at);
  problem::fill_strides(problem, forward);
  for (const compose::Stage& stage : recipe.stages) {
    if (stage.name != name) continue;
    compose::Launch launch;
    stage.bind({forward, reinterpret_cast<std::byte*>(kWorkspace)}, launch);
    REQUIRE(launch.args_bytes == sizeof(Args));
    Args args;
    std::memcpy(&args, launch.args, sizeof args);
    return args;
  }
  FAIL("no stage " << name);
  return {};
}

std::uintptr_t at(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

TEST_CASE("a second way finds what a run began from", "[strategy]") {
  using Prepare = abi::Guarded<abi::chunk::PrepareArgs>;
  using Recurrence = abi::Guarded<abi::chunk_wgmma::Args>;
  const char* plain = "T=8192 H=64 beta_logit=0 h0=1 ht=1";
  const char* pool = "T=8192 H=64 beta_logit=0 h0=1 ht=1 pool=1";
  for (const std::uintptr_t ends_at : {4096U, 8192U}) {
    INFO(ends_at);
    // In place the first way leaves its final states apart, and where it was right they are moved.
    const bool in_place = ends_at == 4096;
    const auto first = bound<abi::fused::Args>(plain, "forward", 4096, ends_at);
    const auto moved = bound<Prepare>(plain, "prepare_again", 4096, ends_at).instead;
    CHECK((at(first.out.final_state) == ends_at) == !in_place);
    CHECK(at(moved.from) == (in_place ? at(first.out.final_state) : 0));
    CHECK(at(moved.to) == (in_place ? ends_at : 0));
    CHECK(moved.bytes == (in_place ? 64 * 128 * 128 * 4 : 0));
    CHECK(bound<Recurrence>(plain, "recurrence_again", 4096, ends_at).kept == nullptr);

    // In a pool what it begins from is kept, wherever its final states go.
    const auto kept = bound<abi::unit_steps::KeepArgs>(pool, "keep", 4096, ends_at);
    CHECK(at(kept.out.initial_state) == 4096);
    CHECK(at(kept.kept) > kWorkspace);
    CHECK(at(bound<abi::fused::Args>(pool, "forward", 4096, ends_at).out.final_state) == ends_at);
    CHECK(bound<Prepare>(pool, "prepare_again", 4096, ends_at).instead.bytes == 0);
    CHECK(bound<Recurrence>(pool, "recurrence_again", 4096, ends_at).kept == kept.kept);
  }
  // What is not written need not be kept.
  const char* read = "T=8192 H=64 beta_logit=0 h0=1 ht=0 pool=1";
  CHECK(bound<Recurrence>(read, "recurrence_again", 4096, 0).kept == nullptr);
}

// The bug: what a pack may be was taken by its mean length alone, 560 us where the planner itself
// expects 420 of another way.
TEST_CASE("unit_steps begins a pack that may be mixed as the planner would", "[strategy]") {
  const Problem pack = problem_in_words("T=8448 N=257 H=16 varlen=1 pool=1 h0=0 ht=1 beta_logit=0");
  const tunable::Values by = unit_steps.defaults(pack, h200());
  CHECK(by == tunable::Values{{"by", 4}});
  // And it expects no less than that way itself takes, which was priced with a tuning of its own
  // for mixed packs.
  Problem sure = pack;
  sure.beta_at_most_one = true;
  const strategy::Strategy& way = strategy::by_lengths;
  CHECK(strategy::expected_microseconds(unit_steps, pack, h200(), by) >
        strategy::expected_microseconds(way, sure, h200(), way.defaults(sure, h200())));
}

// The gap: none had a stage for short sequences, though packs of many may be decodes and a prefill.
TEST_CASE("unit_steps begins packs of many sequences with a short stage", "[strategy]") {
  CHECK(stages_of("T=4160 N=65 H=64 varlen=1 pool=1 h0=1 ht=1 beta_logit=0", 1) ==
        "keep forward short look prepare_again recurrence_again ");
  CHECK(stages_of("T=4160 N=65 H=16 varlen=1 pool=1 h0=1 ht=1 beta_logit=0", 4) ==
        "keep forward_alike prepare_unlike recurrence_unlike short look prepare_again "
        "recurrence_again ");
  // The gap: packs that say that they are mixed went by kernels for any step.
  CHECK(stages_of("T=4112 N=17 H=16 varlen=1 pool=1 h0=1 ht=1 beta_logit=0 mixed=1", 2) ==
        "keep prepare recurrence short look prepare_again recurrence_again ");
}

// The bug: what 256 decodes begin from was kept, too, 140 of 471 us on an H200 (16 heads beside
// 8192 tokens), though their own stage serves any step.
TEST_CASE("unit_steps serves short sequences once", "[strategy]") {
  const std::string pool = "T=4160 N=65 varlen=1 pool=1 h0=1 ht=1 beta_logit=0 ";
  const std::string plain = "T=4160 N=65 varlen=1 h0=1 ht=1 beta_logit=0 ";
  struct Row {
    std::string words;
    int by;
    bool once;
  };
  for (const Row& row : {Row{pool + "H=64", 1, true},
                         {pool + "H=16", 4, true},
                         {pool + "H=64 mixed=1", 1, true},
                         {pool + "H=16 mixed=1", 2, true},
                         {"T=4160 N=65 H=16 varlen=1 pool=1 h0=1 beta_logit=0 ht=0", 4, true},
                         {pool + "H=8", 3, false},
                         {"T=4112 N=17 H=16 varlen=1 pool=1 h0=1 ht=1 beta_logit=0", 4, false},
                         // Final states that may lie over initial ones are all left apart.
                         {plain + "H=64", 1, false},
                         {plain + "H=16 mixed=1", 2, false}}) {
    INFO(row.words << ", by=" << row.by);
    const int short_tokens = row.once ? strategy::kShortTokens : 1;
    for (const compose::Stage& stage : recipe_of(row.words, row.by).stages) {
      if (stage.name == "short") {
        CHECK((stage.prelude.find(".beta_at_most_one") == std::string::npos) == row.once);
      }
      if (stage.name == "recurrence_again") {
        CHECK_THAT(stage.prelude, contains(".short_tokens = " + std::to_string(short_tokens)));
      }
    }
    const char* words = row.words.c_str();
    if (row.words.find("pool=1") != std::string::npos &&
        row.words.find("ht=0") == std::string::npos)
      CHECK(bound<abi::unit_steps::KeepArgs>(words, "keep", 4096, 8192, row.by).short_tokens ==
            short_tokens);
    CHECK(bound<abi::unit_steps::Args>(words, "look", 4096, 8192, row.by).short_tokens ==
          short_tokens);
  }
  // And expects no more than what of the prefill is kept.
  const auto expected = [](const std::string& words, const strategy::Strategy& by, int way) {
    const tunable::Values values = &by == &unit_steps
                                       ? tunable::Values{{"by", way}}
                                       : by.defaults(problem_in_words(words), h200());
    return by.estimate(problem_in_words(words), h200(), values);
  };
  const std::string mixed = "T=8448 N=257 H=16 varlen=1 pool=1 h0=1 ht=1 beta_logit=0 mixed=1";
  CHECK(expected(mixed, unit_steps, 2) <
        expected(mixed + " beta_most_1=1", strategy::chunk_wgmma, 0) + 12);
}

TEST_CASE("unit_steps refuses what it does not serve, naming it", "[strategy]") {
  const auto refused = [](const char* words, const char* target, const char* part) {
    INFO(words);
    const Status status = unit_steps.applicable(problem_in_words(words), *device::parse(target));
    CHECK(status.code() == Code::unsupported);
    CHECK_THAT(status.message(), contains("strategy unit_steps: "));
    CHECK_THAT(status.message(), contains(part));
  };
  refused("H=64", "h200", "without a sigmoid");
  refused("H=64 beta_logit=0 beta_most_1=1", "h200", "no promise");
  refused("H=64 l2norm=0 qk_normalized=1", "h200", "no promise");
  refused("H=64 l2norm=0 neg_eigval=1", "h200", "allow_neg_eigval is true");
  refused("H=64 beta_logit=0 pool=1 ht=1 drafts=1", "h200", "draft_states");
  refused("H=64 beta_logit=0 qkv=f16", "h200", "qkv_type is f16; bf16 is served");
  refused("H=64 beta_logit=0 K=96", "h200", "key_dim is 96; multiples of 64");
  refused("H=64 beta_logit=0", "sm_89", "compute capability 8.9");
  const auto recipe =
      unit_steps.compose(problem_in_words("H=64 V=64 beta_logit=0"), h200(), {{"by", 1}});
  REQUIRE_FALSE(recipe);
  CHECK_THAT(recipe.status().message(), contains("by=1: strategy fused"));
}
