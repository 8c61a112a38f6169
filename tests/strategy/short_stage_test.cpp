// A stage of their own for short sequences (chunk_wgmma, short_tokens): what is composed, launched,
// refused and taken by default, on any host; short_stage_runs_test.cpp runs it.
#include <cstring>
#include <string>

#include "abi/chunk.h"
#include "abi/chunk_wgmma.h"
#include "abi/recurrent.h"
#include "compose/embedded.hpp"
#include "plan/choose.hpp"
#include "plan/plan.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/by_lengths.hpp"
#include "strategy/chunk_wgmma.hpp"
#include "strategy/fused.hpp"
#include "strategy/short_ring.hpp"
#include "strategy/table.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "support/words.hpp"
#include "tune/small_problem.hpp"

using namespace kda;
using namespace kda::test;
using abi::chunk_wgmma::Tuning;
using strategy::by_lengths;
using strategy::chunk_wgmma;
using strategy::fused;

namespace {

constexpr const char* kMixed = "T=8448 N=257 H=16 varlen=1 pool=1 mixed=1 h0=1 ht=1 ";

Result<compose::Recipe> compose_with(const Problem& problem, const Tuning& tuning) {
  return chunk_wgmma.compose(problem, h200(),
                             tunable::values_of(tuning, abi::chunk_wgmma::tunables));
}

compose::Recipe with_short(const std::string& words, Tuning tuning = {}) {
  tuning.short_tokens = 16;
  const auto recipe = compose_with(problem_in_words(words), tuning);
  INFO(words << ": " << recipe.status().message());
  REQUIRE(recipe);
  REQUIRE(recipe->stages.size() == 3);
  return *recipe;
}

compose::Launch launch_of(const Problem& problem, const compose::Stage& stage, std::int64_t tokens,
                          int sequences) {
  Forward forward{.tokens = tokens, .sequences = sequences};
  problem::fill_strides(problem, forward);
  compose::Launch launch;
  stage.bind({forward, nullptr}, launch);
  return launch;
}

std::string default_tuning(const std::string& words) {
  return tunable::to_text(chunk_wgmma.defaults(problem_in_words(words), h200()));
}

}  // namespace

TEST_CASE("short sequences are a last stage, and the others know of it", "[strategy]") {
  for (const char* more : {"", "qkv=f16", "K=96 checkpoint=64", "V=100 layout=key_first"})
    for (const int at_once : {1, 2}) {
      if (at_once == 2 && std::strlen(more) > 0) continue;  // refused
      INFO(more << " stages_at_once=" << at_once);
      const compose::Recipe recipe =
          with_short(std::string(kMixed) + more, {.stages_at_once = at_once});
      for (const compose::Stage& stage : recipe.stages)
        CHECK_THAT(stage.prelude, contains(".short_tokens = 16"));
      // The first begins after whatever came before, or waits for it, which the last relies on.
      if (recipe.stages[0].overlaps_previous) {
        const auto* file = compose::find_embedded("sm90/" + recipe.stages[0].file);
        REQUIRE(file != nullptr);
        const std::string text = file->text;
        const auto waits = text.find("ptx::wait_for_previous();");
        REQUIRE(waits != std::string::npos);
        CHECK(waits < text.find("ptx::launch_dependents()"));  // npos: it lets none start early
      }
      CHECK(recipe.stages[1].overlaps_previous);
      CHECK(recipe.stages[2].overlaps_previous);
      CHECK(recipe.stages[2].name == "short");
      CHECK(recipe.stages[2].file == "recurrent/step.cu");
      CHECK(recipe.stages[2].prelude.find(".checkpoints = true") == std::string::npos);
    }
}

TEST_CASE("a short stage counts sequences by 32 bits, and says so", "[strategy]") {
  const Status status =
      compose_with(problem_in_words("T=268435457 N=268435457 H=1 K=64 V=8 varlen=1"),
                   {.short_tokens = 8})
          .status();
  CHECK(status.code() == Code::unsupported);
  CHECK_THAT(status.message(), contains("268435457"));
  CHECK_THAT(status.message(), contains("at most 268435456"));
}

TEST_CASE("nothing of the short stage is left where there is none", "[strategy]") {
  const auto recipe = compose_with(problem_in_words(kMixed), {});
  REQUIRE(recipe);
  REQUIRE(recipe->stages.size() == 2);
  CHECK(recipe->stages[0].prelude.find("short_tokens") == std::string::npos);
  CHECK(recipe->workspace_bytes == with_short(kMixed).workspace_bytes);
}

TEST_CASE("beside a short stage all blocks of the recurrence fit the device", "[strategy]") {
  const Problem problem = problem_in_words(kMixed);
  const compose::Recipe recipe = with_short(kMixed);
  const auto grid = [&](int stage, std::int64_t tokens, int sequences) {
    return launch_of(problem, recipe.stages.at(stage), tokens, sequences).grid[0];
  };
  CHECK(grid(1, 8448, 257) == 132);
  CHECK(grid(1, 8448, 3) == 96);  // 16 heads, two shards
  CHECK(grid(1, 8448, 1) == 32);
  const compose::Launch last = launch_of(problem, recipe.stages[2], 8448, 257);
  // Of 8 columns; a block looks at eight sequences, as 66 thousand blocks would take 40 us to end.
  CHECK(last.grid[0] == 33U * 16 * 16);
  CHECK(last.args_bytes == sizeof(abi::recurrent::StepArgs<false>));
  // Of a run of fewer sequences than the plan is for each is a block's, or they would take turns.
  CHECK(grid(2, 8448, 20) == 20U * 16 * 16);
  // Without tokens the states are still to be copied, by the last stage.
  CHECK(grid(0, 0, 257) == 0);
  CHECK(grid(2, 0, 257) == 33U * 16 * 16);

  const auto whole = compose_with(problem, {});
  REQUIRE(whole);
  CHECK(launch_of(problem, whole->stages[1], 8448, 257).grid[0] == 257U * 16 * 2);
}

TEST_CASE("beside a short stage and prepare the chains keep half of the device", "[strategy]") {
  const Problem problem = problem_in_words(kMixed);
  const compose::Recipe recipe = with_short(kMixed, {.stages_at_once = 2});
  const auto launch = [&](int stage, std::int64_t tokens, int sequences) {
    return launch_of(problem, recipe.stages.at(stage), tokens, sequences);
  };
  CHECK(launch(1, 8448, 257).grid[0] == 64);  // of two sequences, 16 heads, two shards
  CHECK(launch(0, 8448, 257).grid[0] == 132 - 64);
  CHECK(launch(1, 8448, 1).grid[0] == 32);
  CHECK(launch(0, 8448, 1).grid[0] == 132 - 32);
  // From a tile to the group's next: so many heads and chunks, whatever the number of sequences.
  for (const int sequences : {1, 257}) {
    abi::chunk::PrepareArgs args;
    const compose::Launch prepare = launch(0, 8448, sequences);
    REQUIRE(prepare.args_bytes == sizeof(args));
    std::memcpy(&args, prepare.args, sizeof(args));
    const int step = static_cast<int>(prepare.grid[0]) * 4;
    CHECK(args.walk.heads == step % 16);
    CHECK(args.walk.sequences == 0);
    CHECK(args.walk.chunks == step / 16);
  }
}

TEST_CASE("pairs leave short sequences to a second stage", "[strategy]") {
  const Problem problem = problem_in_words("T=8256 N=65 H=64 varlen=1 pool=1 mixed=1 h0=1 ht=1");
  const tunable::Values values = fused.defaults(problem, h200());
  CHECK(tunable::to_text(values) == "groups=4 short_tokens=8 short_by=2");
  const auto recipe = fused.compose(problem, h200(), values);
  REQUIRE(recipe);
  REQUIRE(recipe->stages.size() == 2);
  for (const compose::Stage& stage : recipe->stages) {
    CHECK_THAT(stage.prelude, contains(".short_tokens = 8"));
    CHECK(stage.overlaps_previous);
  }
  CHECK(recipe->stages[1].file == "recurrent/short.cu");
  CHECK(launch_of(problem, recipe->stages[0], 8256, 65).grid[0] == 132);
  // Slices of 64 columns, eight sequences a block; and a block each of a run of few.
  CHECK(launch_of(problem, recipe->stages[1], 8256, 65).grid[0] == 9U * 64 * 2);
  CHECK(launch_of(problem, recipe->stages[1], 8256, 8).grid[0] == 8U * 64 * 2);
  const auto alone =
      fused.compose(problem, h200(), {{"groups", 4}, {"short_tokens", 1}, {"short_by", 1}});
  REQUIRE(alone);
  REQUIRE(alone->stages.size() == 1);
  CHECK(alone->stages[0].prelude.find("short_tokens") == std::string::npos);
}

// The gap: packs of many sequences that do not say how they are met no stage for short ones; 64
// decodes beside 4096 tokens, 64 heads, took 436 us on an H200 for 311, 8 heads 181 for 80.
TEST_CASE("packs of many sequences have a stage for short ones without a word", "[strategy]") {
  const auto tuning = [](const char* words) {
    return tunable::to_text(fused.defaults(problem_in_words(words), h200()));
  };
  CHECK_THAT(tuning("T=4160 N=65 H=64 varlen=1 h0=1 ht=1"), contains("short_tokens=8"));
  for (const char* words : {"T=4160 N=32 H=64 varlen=1", "T=4160 N=65 H=64", "T=8192 H=64"})
    CHECK_THAT(tuning(words), contains("short_tokens=1"));
  const auto chosen = [](const char* words) {
    const auto choice = plan::choose(problem_in_words(words), h200(), {});
    REQUIRE(choice);
    return choice->recipe.strategy;
  };
  CHECK(chosen("T=4160 N=65 H=8 varlen=1 h0=1 ht=1") == "by_lengths");
  CHECK(chosen("T=4160 N=65 H=64 varlen=1 h0=1 ht=1") == "fused");
  CHECK(chosen("T=4160 N=65 H=64 varlen=1 mixed=1 h0=1 ht=1") == "fused");
}

TEST_CASE("a smaller problem has the same short kernel", "[strategy]") {
  for (const char* words : {kMixed, "T=9000 N=2 H=1 varlen=1 state=bf16 ht=1"}) {
    Problem small = tune::small_problem(problem_in_words(words)).problem;
    const auto recipe = compose_with(small, {.short_tokens = 16});
    REQUIRE(recipe);
    for (int i = 0; i < 3; ++i) {
      CHECK(recipe->stages[i].prelude == with_short(words).stages[i].prelude);
      CHECK(recipe->stages[i].threads == with_short(words).stages[i].threads);
    }
  }
}

TEST_CASE("a search times a mixed problem on mixed lengths", "[strategy]") {
  const auto lengths = tune::usual_lengths(problem_in_words(kMixed));
  REQUIRE(lengths.size() == 257);
  CHECK(lengths.front() == 1);
  CHECK(lengths[255] == 1);
  CHECK(lengths.back() == 8192);
  const auto even = tune::usual_lengths(problem_in_words("T=100 N=3 H=1 varlen=1"));
  CHECK(even == std::vector<std::int64_t>{34, 33, 33});
}

TEST_CASE("short sequences come by rings where states can be brought whole", "[strategy]") {
  const std::string mixed = "T=8256 N=65 H=64 varlen=1 mixed=1 h0=1 ht=1 ";
  const auto tuning = [&](const char* words) {
    return tunable::to_text(fused.defaults(problem_in_words(mixed + words), h200()));
  };
  for (const char* words : {"", "beta_logit=0 beta_most_1=1"}) {
    INFO(words);
    CHECK_THAT(tuning(words), contains("short_by=2"));
  }
  for (const char* words : {"layout=key_first", "state=bf16"}) {
    INFO(words);
    CHECK_THAT(tuning(words), contains("short_by=1"));
  }
  // Fewer decodes gain next to nothing.
  CHECK_FALSE(strategy::prefers_ring(problem_in_words("T=8256 N=32 H=64 varlen=1"), h200()));
  CHECK(strategy::prefers_ring(problem_in_words("T=8256 N=33 H=64 varlen=1"), h200()));
  const auto refused = [&](const char* words, int short_tokens) {
    return chunk_wgmma
        .compose(problem_in_words(mixed + words), h200(),
                 tunable::values_of(Tuning{.short_tokens = short_tokens, .short_by = 2},
                                    abi::chunk_wgmma::tunables))
        .status();
  };
  CHECK(refused("", 8));
  CHECK(refused("state=bf16", 8));
  CHECK_THAT(refused("layout=key_first", 8).message(),
             contains("short_by=2 is for states in [V, K]"));
  CHECK_THAT(refused("K=101", 8).message(), contains("rows of a state on 16 bytes"));
  CHECK_THAT(refused("", 1).message(), contains("no stage of short sequences; short_by=1 does"));
  // Beside chains where decodes take as long as the prefill.
  for (const int heads : {8, 16}) {
    Problem beside = problem_in_words(kMixed);
    beside.heads = beside.value_heads = heads;
    INFO(heads);
    CHECK_THAT(tunable::to_text(chunk_wgmma.defaults(beside, h200())),
               contains(heads == 16 ? "short_by=2" : "short_by=1"));
    beside.mixed_lengths = false;
    const auto both = by_lengths.compose(beside, h200(), by_lengths.defaults(beside, h200()));
    REQUIRE(both);
    CHECK(both->stages.back().file == (heads == 16 ? "recurrent/short.cu" : "recurrent/step.cu"));
  }
  // One block of it a multiprocessor.
  const auto recipe = fused.compose(problem_in_words(mixed), h200(),
                                    fused.defaults(problem_in_words(mixed), h200()));
  REQUIRE(recipe);
  CHECK(2 * recipe->stages.at(1).shared_bytes >= h200().shared_per_multiprocessor);
}

// Measured on an H200: 256 decodes beside 8192 tokens by pairs, rings and registers.
TEST_CASE("the cost model knows what rings spare pairs", "[strategy]") {
  struct Row {
    int heads, short_by;
    double measured;  // us
  };
  for (const Row& row : {Row{16, 2, 312}, {32, 2, 384}, {64, 2, 845}, {32, 1, 458}}) {
    Problem problem = problem_in_words(kMixed);
    problem.heads = problem.value_heads = row.heads;
    const double us = fused.estimate(
        problem, h200(), {{"groups", 4}, {"short_tokens", 8}, {"short_by", row.short_by}});
    INFO(row.heads << " heads, short_by=" << row.short_by << ": " << us);
    CHECK(us > 0.9 * row.measured);
    CHECK(us < 1.1 * row.measured);
  }
}

TEST_CASE("a dense run has no short stage, and is told why", "[strategy]") {
  const Status status = compose_with(problem_in_words("H=4"), {.short_tokens = 8}).status();
  CHECK(status.code() == Code::unsupported);
  CHECK_THAT(status.message(), contains("short_tokens=8, but varlen = false"));
  CHECK_THAT(status.message(), contains("short_tokens=1 does"));
  const Status pairs = fused
                           .compose(problem_in_words("H=64"), h200(),
                                    {{"groups", 4}, {"short_tokens", 8}, {"short_by", 1}})
                           .status();
  CHECK(pairs.code() == Code::unsupported);
  CHECK_THAT(pairs.message(), contains("strategy fused: short_tokens=8, but varlen = false"));
}

TEST_CASE("mixed packs take a short stage by default, others none", "[strategy]") {
  CHECK_THAT(default_tuning(kMixed), contains("warpgroups=1"));
  CHECK_THAT(default_tuning(kMixed), contains("stages_at_once=2 short_tokens=8"));
  // Too many heads for the chains of one sequence to leave room to prepare beside them.
  CHECK_THAT(default_tuning("T=8448 N=257 H=64 varlen=1 pool=1 mixed=1 h0=1 ht=1"),
             contains("stages_at_once=1 short_tokens=8"));
  for (const char* words :
       {"T=8448 N=257 H=16 varlen=1", "T=8192 N=1 H=16 varlen=1 mixed=1", "T=8192 H=16",
        // Two sequences leave room for both stages at once, which is worth more.
        "T=65536 N=2 H=16 varlen=1 mixed=1"}) {
    INFO(words);
    CHECK_THAT(default_tuning(words), contains("short_tokens=1"));
  }
}

TEST_CASE("the cost model knows that a mixed pack's prefill is one sequence", "[strategy]") {
  for (const char* words : {kMixed, "T=8448 N=257 H=16 varlen=1 mixed=1 h0=1 ht=1"}) {
    const Problem problem = problem_in_words(words);
    const auto choice = plan::choose(problem, h200(), {});
    REQUIRE(choice);
    CHECK(choice->recipe.strategy == "chunk_wgmma");
    CHECK(choice->recipe.stages.size() == 3);
    for (const strategy::Strategy* other : strategy::table()) {
      if (other == &chunk_wgmma || other == &fused || !other->applicable(problem, h200())) continue;
      INFO(other->name);
      CHECK(other->estimate(problem, h200(), other->defaults(problem, h200())) >
            1.5 * choice->microseconds);
    }
    CHECK(fused.estimate(problem, h200(), fused.defaults(problem, h200())) > choice->microseconds);
    const auto one = problem_in_words("T=8192 N=1 H=16 varlen=1 h0=1 ht=1");
    CHECK(choice->microseconds >
          chunk_wgmma.estimate(one, h200(), chunk_wgmma.defaults(one, h200())));
  }
  // Decodes alone stay recurrent's.
  const auto decodes = plan::choose(
      problem_in_words("T=257 N=257 H=16 varlen=1 pool=1 mixed=1 h0=1 ht=1"), h200(), {});
  REQUIRE(decodes);
  CHECK(decodes->recipe.strategy == "recurrent");
}

TEST_CASE("a short stage compiles without spills by default", "[strategy][compile]") {
  const std::string mixed = "T=8448 N=257 H=16 varlen=1 mixed=1 ";
  const Scratch cache;
  std::vector<Problem> problems;
  for (const char* words :
       {"h0=1 ht=1", "pool=1 h0=1 ht=1 zero_padding=1 checkpoint=64 slots=i64",
        "qkv=f16 g=f32 beta=f32 h0=1 ht=1", "K=64 V=64 state=bf16 cu_seqlens=i32 ht=1",
        "HV=64 V=100 layout=key_first pool=1 h0=1", "layout=key_first pool=1 h0=1 ht=1",
        "layout=key_first state=bf16 pool=1 h0=1 ht=1", "K=96 gate=softplus beta_logit=0 l2norm=0"})
    problems.push_back(problem_in_words(mixed + words));
  const auto plans = plan::make_all(problems, {.target = "sm_90a",
                                               .cache_dir = cache.path(),
                                               .strategy = "chunk_wgmma",
                                               .tuning = "short_tokens=16 stages_at_once=1"});
  const auto check = [](const std::vector<Problem>& of, const auto& made) {
    for (std::size_t i = 0; i < made.size(); ++i) {
      INFO(problem::to_text(of[i]) << ": " << made[i].status().message());
      REQUIRE(made[i]);
      REQUIRE((*made[i])->program.kernels.size() == 3);
      for (const program::Kernel& kernel : (*made[i])->program.kernels)
        CHECK(kernel.resources.spill_bytes == 0);
    }
  };
  check(problems, plans);
  // And by rings.
  std::vector<Problem> rings;
  for (const char* words :
       {"h0=1 ht=1", "pool=1 h0=1 ht=1 zero_padding=1 checkpoint=64 slots=i64", "K=64 V=64 ht=1",
        "K=64 V=100 state=bf16 cu_seqlens=i32 h0=1 ht=1", "HV=64 V=100 state=bf16 pool=1 h0=1",
        "K=256 V=256 h0=1 ht=1", "K=36 V=40 pool=1 h0=1 ht=1",
        "K=96 gate=softplus beta_logit=0 l2norm=0 h0=1", "qkv=f16 g=f32 beta=f32 h0=1 ht=1"})
    rings.push_back(problem_in_words(mixed + words));
  check(rings, plan::make_all(rings, {.target = "sm_90a",
                                      .cache_dir = cache.path(),
                                      .strategy = "chunk_wgmma",
                                      .tuning = "short_tokens=16 short_by=2 stages_at_once=1"}));
}
