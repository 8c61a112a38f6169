// Strategy unit_steps: which way a run goes, on the host and on a GPU.
#include "strategy/unit_steps.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
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
#include "support/one_run.hpp"
#include "support/pool_sweep.hpp"
#include "support/trials.hpp"
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
  const Problem most = problem_in_words("T=65536 N=2 H=2 varlen=1 beta_logit=0 pool=1 h0=1 ht=1");
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
  refused("H=64 l2norm=0 neg_eigval=1", "h200", "no neg_eigval");
  refused("H=64 beta_logit=0 pool=1 ht=1 drafts=1", "h200", "draft_states");
  refused("H=64 beta_logit=0 qkv=f16", "h200", "bf16");
  refused("H=64 beta_logit=0 K=96", "h200", "key_dim a multiple of 64");
  refused("H=64 beta_logit=0", "sm_89", "sm_90");
  const auto recipe =
      unit_steps.compose(problem_in_words("H=64 V=64 beta_logit=0"), h200(), {{"by", 1}});
  REQUIRE_FALSE(recipe);
  CHECK_THAT(recipe.status().message(), contains("by=1: strategy fused"));
}

namespace {

// By Tuning::by, from 1 on.
constexpr const char* kNames[] = {"fused", "chunk_wgmma", "segments", "by_lengths"};
constexpr int kWays = 4;

// Whether a run may begin by that way.
bool begins(const Problem& problem, int by) {
  return static_cast<bool>(unit_steps.compose(problem, h200(), {{"by", by}}));
}

// Whether the first way by both ends in that for one long sequence.
bool goes_unlike(const Trial& trial) {
  const Trial one = complete(trial);
  Problem sure = one.problem;
  sure.beta_at_most_one = !sure.beta_is_logit;
  sure.qk_normalized = !sure.l2norm_qk;
  const tunable::Values ways = strategy::by_lengths.defaults(sure, h200());
  return has_longer(one, strategy::longest_alike(sure, h200(), ways));
}

// More sequences than a warp has lanes: decodes beside a prefill.
std::vector<std::int64_t> many_lengths() {
  std::vector<std::int64_t> lengths(40, 1);
  lengths[7] = 500;
  lengths[20] = 0;
  lengths[33] = 70;
  return lengths;
}

// What breaks a promise: a beta, or a row of k or q times a power of two.
struct Breach {
  const char* tensor;
  float by;
};

// bf16 and f32 only; `at` of 0, 1 and 2 is the first, a middle and the last token and head.
void commit(const Breach& breach, int at, reference::Tensors& tensors) {
  reference::Bytes& bytes = breach.tensor[0] == 'b'   ? tensors.beta
                            : breach.tensor[0] == 'k' ? tensors.k
                                                      : tensors.q;
  if (breach.tensor[0] == 'b') {
    const std::size_t count = bytes.size() / sizeof(float);
    const std::size_t one = at == 0 ? 0 : at == 1 ? count / 2 : count - 1;
    std::memcpy(bytes.data() + one * sizeof(float), &breach.by, sizeof breach.by);
    return;
  }
  const auto keys = static_cast<std::size_t>(tensors.problem.key_dim);
  const std::size_t rows = bytes.size() / 2 / keys;
  const std::size_t row = at == 0 ? 0 : at == 1 ? rows / 2 : rows - 1;
  for (std::size_t c = row * keys; c < (row + 1) * keys; ++c) {
    std::uint16_t half;
    std::memcpy(&half, bytes.data() + c * 2, 2);
    float x = std::bit_cast<float>(std::uint32_t{half} << 16) * breach.by;
    half = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
    std::memcpy(bytes.data() + c * 2, &half, 2);
  }
}

}  // namespace

// A run with the promise kept has the bits of that way's strategy, and one that breaks it once,
// wherever that is, those of chunk_wgmma.
TEST_CASE("which way a run goes follows from its betas and rows", "[gpu][sanitize]") {
  const Gpu gpu;
  for (const char* words :
       {"varlen=1 beta_logit=0 ", "varlen=1 K=64 g=f32 gate=log_decay beta_logit=0 ",
        "varlen=0 beta_logit=0 ", "varlen=1 l2norm=0 ",
        "varlen=0 K=64 g=f32 gate=log_decay beta_logit=0 l2norm=0 ",
        "varlen=1 K=192 beta_logit=0 l2norm=0 ",
        "varlen=0 K=256 g=f32 gate=log_decay beta_logit=0 l2norm=0 "}) {
    Trial one = complete(trial(std::string(words) + "V=128 H=2 HV=4 beta=f32", {100, 100, 100}));
    Trial sure = one;
    sure.problem.beta_at_most_one = !one.problem.beta_is_logit;
    sure.problem.qk_normalized = !one.problem.l2norm_qk;
    std::vector<Breach> breaches;
    if (!one.problem.beta_is_logit) breaches = {{"beta", 1.5F}, {"beta", -0.25F}};
    if (!one.problem.l2norm_qk) {
      for (const Breach more :
           {Breach{"k", 2.0F}, {"k", 1.0F / 32}, {"q", 32768.0F}, {"q", 1.0F / 2048}}) {
        breaches.push_back(more);
      }
    }
    Truth truth(one);
    for (const bool in_place : {false, true}) {
      one.in_place_state = in_place;
      for (int by = 1; by <= kWays; ++by) {
        if (!begins(one.problem, by)) continue;
        INFO(words << by << " in place " << in_place);
        const reference::Outputs kept = outputs_of(gpu, sure, truth.tensors(), kNames[by - 1], "");
        const std::string tuning = "by=" + std::to_string(by);
        CHECK(same(outputs_of(gpu, one, truth.tensors(), "unit_steps", tuning.c_str()), kept));
      }
      for (const Breach& breach : breaches) {
        for (int at = 0; at < 3; ++at) {
          INFO(words << breach.tensor << " by " << breach.by << " at " << at << ", in place "
                     << in_place);
          reference::Tensors tensors = truth.tensors();
          commit(breach, at, tensors);
          const reference::Outputs any = outputs_of(gpu, one, tensors, "chunk_wgmma", "");
          CHECK(same(outputs_of(gpu, one, tensors, "unit_steps", ""), any));
        }
      }
    }
  }
}

// What an early token broke is seen in the last one's outputs, however much is forgotten meanwhile.
TEST_CASE("a broken promise stays in the state", "[gpu]") {
  const Gpu gpu;
  for (const double decay : {0.0, -0.01, -5.0, -500.0}) {
    reference::InputSpec spec;
    spec.gate = reference::GatePattern::constant;
    spec.gate_value = decay;
    const Trial one = complete(trial(
        "V=192 K=128 H=2 HV=4 g=f32 beta=f32 gate=log_decay beta_logit=0 l2norm=0", {3000}, spec));
    Truth truth(one);
    for (const Breach& breach : {Breach{"beta", 1.5F}, Breach{"k", 2.0F}, Breach{"q", 32768.0F}}) {
      for (int at = 0; at < 3; ++at) {
        reference::Tensors tensors = truth.tensors();
        commit(breach, at, tensors);
        const reference::Outputs any = outputs_of(gpu, one, tensors, "chunk_wgmma", "");
        for (const char* by : {"by=2", "by=3"}) {
          INFO(decay << ' ' << breach.tensor << " at " << at << ' ' << by);
          CHECK(same(outputs_of(gpu, one, tensors, "unit_steps", by), any));
        }
      }
    }
  }
}

// The gap: paged prefills of models that keep their sigmoids took two to three times as long, as no
// run in a pool could begin again.  Now what it begins from is kept: most slots here are written
// where they were read.
TEST_CASE("a run in a pool begins again from what its slots held", "[gpu]") {
  std::vector<PoolTrial> trials;
  for (const bool beyond : {false, true}) {
    for (const char* words :
         {"varlen=1 beta_logit=0 ", "varlen=1 g=f32 beta=f32 gate=log_decay beta_logit=0 ",
          "varlen=1 K=64 state=bf16 layout=key_first slots=i64 zero_padding=1 l2norm=0 ",
          "varlen=0 checkpoint=64 beta_logit=0 ",
          "varlen=1 checkpoint=128 state=bf16 beta_logit=0 ", "varlen=1 h0=0 beta_logit=0 ",
          "varlen=0 ht=0 beta_logit=0 ", "varlen=1 K=256 beta_logit=0 ",
          "varlen=1 mixed=1 beta_logit=0 ", "varlen=1 mixed=1 checkpoint=64 l2norm=0 ",
          "varlen=0 K=192 layout=key_first checkpoint=64 beta_logit=0 "}) {
      const bool dense = std::string(words).find("varlen=0") != std::string::npos;
      const bool starts = std::string(words).find("h0=0") == std::string::npos;
      const bool ends = std::string(words).find("ht=0") == std::string::npos;
      const bool checkpoints = std::string(words).find("checkpoint") != std::string::npos;
      for (int i = 0; i < 5; ++i) {
        if (i == 4 && dense) continue;
        reference::InputSpec spec;
        if (beyond) spec.beta = 1.7;
        if (beyond && std::string(words).find("l2norm=0") != std::string::npos) {
          spec.keys = reference::KeyPattern::unnormalised;
        }
        PoolTrial one;
        // Of packs by_lengths takes one for a long sequence beside others.
        const std::vector<std::int64_t> lengths =
            dense    ? std::vector<std::int64_t>(8, 130)
            : i == 4 ? many_lengths()
            : i == 3 ? std::vector<std::int64_t>{900, 0, 1, 7, 1, 2, 0, 3}
                     : std::vector<std::int64_t>{300, 0, 33, 129, 1, 64, 70, 257};
        one.trial = trial(std::string("pool=1 ") + words + "V=128 HV=4", lengths, spec);
        one.slots = make_slots({.sequences = static_cast<int>(lengths.size()),
                                .checkpoint_columns = checkpoints ? 3 : 0,  // tokens have more
                                .prefixes = starts && i % 2 == 1,
                                .seed = trials.size()});
        one.gap = i == 1 ? 3 : i == 2 ? 64 : 0;
        one.row_gap = i % 2;
        one.apart = i == 3 && ends;
        one.trial.misaligned = i == 2;
        trials.push_back(one);
      }
    }
  }
  check_pools_on_device("begin again", trials, {{"unit_steps", ""}});
  for (int by = 1; by <= kWays; ++by) {
    INFO(by);
    std::vector<PoolTrial> served = trials;
    std::erase_if(served,
                  [&](PoolTrial& each) { return !begins(complete(each.trial).problem, by); });
    const auto unlike = std::count_if(served.begin(), served.end(), [](const PoolTrial& each) {
      return goes_unlike(each.trial);
    });
    if (by == 4) CHECK((unlike > 0 && unlike < static_cast<std::ptrdiff_t>(served.size())));
    check_pools_on_device("begin again", served, {{"unit_steps", "by=" + std::to_string(by)}});
  }
}

// Both ways in every layout, beside NaN that is nobody's, and with offsets that make no sense.
TEST_CASE("unit_steps in odd places", "[gpu]") {
  if (!on_device()) return;
  std::vector<Trial> trials;
  for (const bool beyond : {false, true}) {
    for (const char* words :
         {"varlen=1 beta_logit=0 ",
          "varlen=1 cu_seqlens=i32 g=f32 beta=bf16 gate=log_decay beta_logit=0 ",
          "varlen=0 beta=f16 K=64 beta_logit=0 ", "varlen=1 l2norm=0 ",
          "varlen=0 g=f32 gate=softplus l2norm=0 beta_logit=0 ", "varlen=1 K=256 beta_logit=0 ",
          "varlen=0 K=192 l2norm=0 "}) {
      const bool dense = std::string(words).find("varlen=0") != std::string::npos;
      const bool normed = std::string(words).find("l2norm=0") == std::string::npos;
      reference::InputSpec spec;
      if (beyond && normed) spec.beta = 1.7;
      if (beyond && !normed) spec.keys = reference::KeyPattern::unnormalised;
      Trial one = trial(std::string(words) + "V=128 HV=4",
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
      Trial many = trial(std::string(words) + "V=128 HV=4", many_lengths(), spec);
      many.tail = 70;
      trials.push_back(many);
      many.in_place_state = true;
      trials.push_back(many);
    }
  }
  const Tally tally = sweep("odd places", trials, {{"unit_steps", ""}});
  CHECK(tally.failed == 0);
  CHECK(tally.refused == 0);
  CHECK(tally.passed == static_cast<int>(trials.size()));
}
