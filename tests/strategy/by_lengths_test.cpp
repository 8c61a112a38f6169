// Strategy by_lengths: which way a pack goes, on the host and on a GPU.
#include "strategy/by_lengths.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "abi/fused.h"
#include "abi/guard.h"
#include "launch/graph_pool.hpp"
#include "problem/shape.hpp"
#include "strategy/chunk_wgmma.hpp"
#include "strategy/expected.hpp"
#include "strategy/fused.hpp"
#include "strategy/pick.hpp"
#include "support/one_run.hpp"
#include "support/pool_sweep.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;
using kda::strategy::by_lengths;

namespace {

tunable::Values ways(int alike, int unlike) { return {{"alike", alike}, {"unlike", unlike}}; }

// The longest sequence of a run of so many tokens that is alike, as `fused` is told (alike=1).
std::int64_t most_alike(const Problem& problem, const device::Device& device,
                        const tunable::Values& values, std::int64_t tokens) {
  const auto recipe = by_lengths.compose(problem, device, values);
  REQUIRE(recipe);
  Forward forward;
  forward.tokens = tokens;
  forward.sequences = problem.max_sequences;
  problem::fill_strides(problem, forward);
  compose::Launch launch;
  recipe->stages.at(0).bind({forward, nullptr}, launch);
  REQUIRE(launch.args_bytes == sizeof(abi::OfLengths<abi::fused::Args>));
  abi::OfLengths<abi::fused::Args> given;
  std::memcpy(&given, launch.args, sizeof given);
  return given.most;
}

// Whether a trial's lengths are the second way's on the device.
bool is_unlike(const Trial& trial, const tunable::Values& values,
               const device::Device& device = h200()) {
  const Trial one = complete(trial);
  return has_longer(one, strategy::longest_alike(one.problem, device, values));
}

}  // namespace

TEST_CASE("a pack has the kernels of both ways, guarded", "[strategy]") {
  struct Row {
    const char* words;
    std::vector<std::string> stages;
  };
  for (const Row& row :
       std::vector<Row>{{"T=8192 N=4 H=16 varlen=1",
                         {"forward_alike", "prepare_unlike", "recurrence_unlike", "short_unlike"}},
                        {"T=8192 N=8 H=8 varlen=1",
                         {"forward_alike", "prepare_unlike", "walk_unlike", "correct_unlike"}},
                        {"T=8192 N=3 H=8 varlen=1 pool=1 ht=1",
                         {"prepare_alike", "recurrence_alike", "prepare_unlike", "walk_unlike",
                          "correct_unlike"}}}) {
    INFO(row.words);
    const Problem problem = problem_in_words(row.words);
    REQUIRE(by_lengths.applicable(problem, h200()));
    const auto recipe = by_lengths.compose(problem, h200(), by_lengths.defaults(problem, h200()));
    REQUIRE(recipe);
    std::vector<std::string> names;
    for (const compose::Stage& stage : recipe->stages) {
      names.push_back(stage.name);
      const bool alike = stage.name.ends_with("_alike");
      const char* guard = alike ? "#define KDA_GUARDED 2\n" : "#define KDA_GUARDED 3\n";
      CHECK_THAT(stage.prelude, contains(guard));
      CHECK(stage.overlaps_previous);
    }
    CHECK(names == row.stages);
    CHECK(names.size() <= launch::GraphPool::kMostKernels);
  }
}

// Each block looks at all lengths, so only the stage that does not comes by thousands of them.
TEST_CASE("of many sequences both ways leave the short ones to one stage", "[strategy]") {
  for (const char* words : {"T=4160 N=65 H=8 varlen=1 pool=1 h0=1 ht=1",
                            "T=8448 N=1024 H=16 varlen=1 h0=1 ht=1 checkpoint=0",
                            "T=8448 N=257 H=32 HV=32 K=64 varlen=1 pool=1 ht=1 checkpoint=64"}) {
    INFO(words);
    const Problem problem = problem_in_words(words);
    REQUIRE(by_lengths.applicable(problem, h200()));
    const auto recipe = by_lengths.compose(problem, h200(), by_lengths.defaults(problem, h200()));
    REQUIRE(recipe);
    REQUIRE(recipe->stages.size() == 4);
    const char* names[] = {"forward_alike", "prepare_unlike", "recurrence_unlike", "short"};
    Forward forward{.tokens = problem.max_tokens, .sequences = problem.max_sequences};
    problem::fill_strides(problem, forward);
    for (std::size_t i = 0; i < 4; ++i) {
      const compose::Stage& stage = recipe->stages[i];
      CHECK(stage.name == names[i]);
      CHECK(stage.overlaps_previous);
      CHECK_THAT(stage.prelude, contains(".short_tokens = 8"));
      const bool guarded = stage.prelude.find("#define KDA_GUARDED") != std::string::npos;
      CHECK(guarded == (i < 3));
      compose::Launch launch;
      stage.bind({forward, nullptr}, launch);
      if (guarded) CHECK(launch.grid[0] * launch.grid[1] <= 132);
    }
  }
}

TEST_CASE("how long a pack's longest may be follows a run's tokens", "[strategy]") {
  const Problem pack = problem_in_words("T=8192 N=4 H=16 varlen=1 h0=1 ht=1");
  const std::int64_t most = most_alike(pack, h200(), ways(1, 2), 8192);
  // Of 16 heads `fused` takes 77 us of four of 2048 tokens and 229 where one has 7000, chains 145.
  CHECK(most > 3300);
  CHECK(most < 5500);
  CHECK(std::abs(most_alike(pack, h200(), ways(1, 2), 4096) - most / 2) <= 1);
  CHECK(most_alike(pack, h200(), ways(1, 2), 0) == 0);
  // Where the way for one long sequence is no better at that, all runs are alike.
  const Problem many = problem_in_words("T=8192 N=4 H=64 varlen=1 h0=1 ht=1");
  CHECK(most_alike(many, h200(), ways(1, 2), 8192) == 8192);
}

// The gap: of 7000, 300, 700 and 192 tokens 16 heads took 251 us by `fused` on an H100 and of four
// of 2048 tokens 159 by chains, and no plan had the better of both.
TEST_CASE("packs of few heads have both ways unless they say how they are", "[strategy]") {
  const auto picked = [](const std::string& words) {
    const auto pick = strategy::pick(problem_in_words(words), h200(), "", "");
    REQUIRE(pick);
    return std::string(pick->strategy->name);
  };
  for (const int heads : {16, 24}) {
    const std::string pack = "T=8192 N=4 varlen=1 h0=1 ht=1 H=" + std::to_string(heads);
    CHECK(picked(pack) == "by_lengths");
    CHECK(picked(pack + " mixed=1") == "chunk_wgmma");
  }
  // Heads that fill the device take as long either way; few go by segments either way.
  CHECK(picked("T=8192 N=4 H=64 varlen=1 h0=1 ht=1") == "fused");
  CHECK(picked("T=8192 N=4 H=4 varlen=1 h0=1 ht=1") == "segments");
}

// The bug: a record of packs of another size, measured of sequences that are alike, had the planner
// take `fused`, 282 us of 7000, 300, 700 and 192 tokens and 24 heads on an H100 for 201 by chains.
TEST_CASE("records of packs that are alike are no reason against both ways", "[strategy]") {
  const auto picked = [](const char* words) {
    const Problem problem = problem_in_words(words);
    const strategy::Strategy& fused = strategy::fused;
    const strategy::Preferred recorded = {&fused, fused.defaults(problem, h100()), true};
    const auto pick = strategy::pick(problem, h100(), "", "", recorded);
    REQUIRE(pick);
    return std::string(pick->strategy->name);
  };
  CHECK(picked("T=8192 N=4 H=24 varlen=1 h0=1 ht=1") == "by_lengths");
  // 250 us of 7000, 300, 700 and 192 tokens for 96, where four of 2048 take 82 and 93.
  CHECK(picked("T=8192 N=4 H=8 varlen=1 h0=1 ht=1") == "segments");
  // Where that does not serve, what was measured is worth the few per cent that the model may err.
  const Problem dense = problem_in_words("T=8192 N=3 H=16 h0=1 ht=1");
  const auto expected = [&](const strategy::Strategy& each) {
    return strategy::expected_microseconds(each, dense, h100(), each.defaults(dense, h100()));
  };
  INFO(expected(strategy::fused) << " and " << expected(strategy::chunk_wgmma));
  CHECK(picked("T=8192 N=3 H=16 h0=1 ht=1") == "fused");
}

TEST_CASE("by_lengths refuses what it does not serve, naming it", "[strategy]") {
  const auto refused = [](const char* words, const char* target, const char* part) {
    INFO(words);
    const Status status = by_lengths.applicable(problem_in_words(words), *device::parse(target));
    CHECK(status.code() == Code::unsupported);
    CHECK_THAT(status.message(), contains("strategy by_lengths: "));
    CHECK_THAT(status.message(), contains(part));
  };
  refused("H=16 T=8192 N=4", "h200", "varlen = false");
  refused("H=16 T=8192 N=1 varlen=1", "h200", "max_sequences = 1");
  refused("H=16 T=8192 N=1025 varlen=1", "h200", "2 to 1024 sequences");
  refused("H=64 T=8192 N=33 varlen=1", "h200", "too little of NVIDIA H200 to prepare");
  refused("H=16 T=8192 N=33 varlen=1 V=64", "h200", "strategy fused");
  refused("H=16 T=8192 N=4 varlen=1 mixed=1", "h200", "mixed_lengths");
  refused("H=16 T=8192 N=4 varlen=1 beta_logit=0", "h200", "beta_at_most_one");
  refused("H=16 T=8192 N=4 varlen=1 qkv=f16", "h200", "qkv_type is f16; bf16 is served");
  refused("H=16 T=8192 N=4 varlen=1", "sm_89", "compute capability 8.9");
  const auto recipe =
      by_lengths.compose(problem_in_words("H=16 T=8192 N=4 V=64 varlen=1"), h200(), ways(1, 2));
  REQUIRE_FALSE(recipe);
  CHECK_THAT(recipe.status().message(), contains("by_lengths: alike=1: strategy fused"));
  const auto many =
      by_lengths.compose(problem_in_words("H=16 T=8192 N=33 varlen=1"), h200(), ways(2, 3));
  REQUIRE_FALSE(many);
  CHECK_THAT(many.status().message(), contains("alike=2 unlike=3 with max_sequences = 33"));
  CHECK_THAT(many.status().message(), contains("alike=1 unlike=2 serves"));
}

// Packs in which the longest sequence has little of the tokens, and nearly all: the bits are those
// of the way's strategy.
TEST_CASE("a pack's longest sequence decides which way it goes", "[gpu][sanitize]") {
  constexpr const char* kNames[] = {"fused", "chunk_wgmma", "segments"};
  struct Row {
    int alike, unlike;
    const char* words;
    std::int64_t tokens;
  };
  std::vector<std::pair<Row, bool>> runs;  // and whether they are unlike
  for (const Row& row : std::vector<Row>{{1, 2, "K=128 V=128 HV=4 ", 600},
                                         {1, 3, "K=128 V=128 HV=4 ", 3000},
                                         {2, 1, "K=64 V=128 H=16 HV=64 ", 600},
                                         {2, 3, "K=128 V=128 HV=4 ", 3000},
                                         {3, 1, "K=64 V=128 H=16 HV=64 ", 600},
                                         {3, 2, "K=64 V=128 HV=4 cu_seqlens=i32 g=f32 ", 600}}) {
    for (const bool unlike : {false, true}) runs.emplace_back(row, unlike);
  }
  for (const auto& [row, unlike] : runs) {
    const std::int64_t n = row.tokens;
    Trial one =
        complete(trial(std::string(row.words) + "varlen=1",
                       unlike ? std::vector<std::int64_t>{1, n - 10, 0, 9}
                              : std::vector<std::int64_t>{n / 4, n / 4, n / 4 - 1, n / 4 + 1}));
    const std::string tuning =
        "alike=" + std::to_string(row.alike) + " unlike=" + std::to_string(row.unlike);
    INFO(to_text(one) << ": " << tuning);
    CHECK(is_unlike(one, ways(row.alike, row.unlike)) == unlike);
    if (!on_device()) continue;
    const Gpu gpu;
    const bool goes = is_unlike(one, ways(row.alike, row.unlike), *device::query(-1));
    Truth truth(one);
    const reference::Outputs both =
        outputs_of(gpu, one, truth.tensors(), "by_lengths", tuning.c_str());
    CHECK(truth.judge(both) == "");
    one.problem.mixed_lengths = goes;
    CHECK(same(both, outputs_of(gpu, one, truth.tensors(),
                                kNames[(goes ? row.unlike : row.alike) - 1], "")));
  }
}

namespace {

std::vector<Trial> both_in_every_place() {
  std::vector<Trial> out;
  for (const char* words :
       {"K=128 V=128 ", "K=64 V=128 state=bf16 layout=key_first g=f32 gate=softplus ",
        "K=128 V=64 cu_seqlens=i32 h0=0 ", "K=256 V=128 ht=0 ",
        "K=128 V=128 beta_logit=0 beta_most_1=1 l2norm=0 qk_normalized=1 "}) {
    for (const std::vector<std::int64_t>& lengths :
         {std::vector<std::int64_t>{100, 110, 90, 0, 107}, {3, 0, 700, 1, 64}}) {
      const std::vector<Trial> places =
          in_every_place(trial(std::string(words) + "varlen=1 HV=4", lengths));
      out.insert(out.end(), places.begin(), places.end());
    }
  }
  return out;
}

using Lengths = std::vector<std::int64_t>;

// Of all words at all lengths, some with slots that lie apart.
std::vector<PoolTrial> in_pools(const std::vector<std::string>& all_words,
                                const std::vector<Lengths>& all_lengths, int checkpoint_columns) {
  std::vector<PoolTrial> out;
  for (const std::string& words : all_words) {
    for (const Lengths& lengths : all_lengths) {
      PoolTrial one;
      one.trial = trial("pool=1 varlen=1 K=128 V=128 HV=4 " + words, lengths);
      const bool keeps = one.trial.problem.checkpoint_tokens > 0;
      one.slots = make_slots({.sequences = static_cast<int>(lengths.size()),
                              .checkpoint_columns = keeps ? checkpoint_columns : 0,
                              .prefixes = one.trial.problem.initial_state,
                              .seed = out.size()});
      one.gap = out.size() % 3 == 1 ? 64 : 0;
      out.push_back(one);
    }
  }
  return out;
}

std::vector<PoolTrial> both_in_pools() {
  return in_pools({"", "state=bf16 layout=key_first slots=i64 zero_padding=1 ", "checkpoint=64 ",
                   "checkpoint=128 state=bf16 ", "h0=0 ", "ht=0 "},
                  {{60, 64, 70, 0, 33, 57}, {1, 0, 500, 3, 1, 1}}, 5);
}

// At these lengths no others have both.
constexpr std::pair<int, int> kWays[] = {{1, 2}, {3, 2}};

std::string words_of(const std::pair<int, int>& each) {
  return "alike=" + std::to_string(each.first) + " unlike=" + std::to_string(each.second);
}

// Both ways are met.
void check_both(const std::vector<Trial>& trials, const std::pair<int, int>& each) {
  INFO(words_of(each));
  const auto unlike = std::count_if(trials.begin(), trials.end(), [&](const Trial& one) {
    return is_unlike(one, ways(each.first, each.second));
  });
  CHECK(unlike > 0);
  CHECK(unlike < static_cast<std::ptrdiff_t>(trials.size()));
}

}  // namespace

TEST_CASE("both ways of a pack in odd places", "[gpu][lengths]") {
  for (const auto& each : kWays) {
    check_both(both_in_every_place(), each);
    check_on_device("both ways in odd places", both_in_every_place(),
                    {{"by_lengths", words_of(each)}});
  }
}

// Which differ in the second one's stage for short sequences.
TEST_CASE("a pack by pairs in both ways", "[gpu][lengths]") {
  Lengths decodes(31, 1);
  decodes.insert(decodes.begin() + 3, 300);
  std::vector<Trial> trials;
  for (const Lengths& lengths : {decodes, Lengths(32, 10)}) {
    trials.push_back(trial("K=128 V=128 H=32 HV=32 varlen=1", lengths));
    trials.push_back(trial("K=128 V=128 H=16 HV=32 h0=0 varlen=1", lengths));
    trials.back().misaligned = 1;
  }
  check_both(trials, {1, 1});
  check_on_device("pairs in both ways", trials, {{"by_lengths", words_of({1, 1})}});
}

TEST_CASE("both ways of a pack from and to pools", "[gpu][lengths]") {
  for (const auto& each : kWays) {
    std::vector<Trial> trials;
    for (const PoolTrial& one : both_in_pools()) trials.push_back(one.trial);
    check_both(trials, each);
    check_pools_on_device("both ways in pools", both_in_pools(), {{"by_lengths", words_of(each)}});
  }
}

namespace {

// More sequences than a warp has lanes, and than short ones are looked at at once: decodes before
// and after prefills, short ones among them, all alike, all short.
std::vector<Lengths> many_lengths() {
  Lengths before(70, 1), after(70, 1), mixed, alike(45, 40), shorts;
  before.insert(before.end(), {700, 30});
  after.insert(after.begin(), {30, 700});
  for (int n = 0; n < 110; ++n) mixed.push_back(n % 7 == 3 ? 9 + n % 90 : n % 9);
  for (int n = 0; n < 50; ++n) shorts.push_back(n % 9);
  return {before, after, mixed, alike, shorts};
}

std::vector<Trial> many_in_every_place() {
  std::vector<Trial> out;
  for (const char* words :
       {"K=128 V=128 HV=4 ", "K=64 V=128 H=2 HV=4 state=bf16 layout=key_first g=f32 gate=softplus ",
        "K=128 V=256 H=3 HV=3 cu_seqlens=i32 h0=0 "})
    for (const Lengths& lengths : many_lengths()) {
      const std::vector<Trial> places =
          in_every_place(trial(std::string(words) + "varlen=1", lengths));
      out.insert(out.end(), places.begin(), places.end());
    }
  return out;
}

std::vector<PoolTrial> many_in_pools() {
  return in_pools({"", "state=bf16 layout=key_first slots=i64 zero_padding=1 ", "layout=key_first ",
                   "checkpoint=64 ", "h0=0 zero_padding=1 ", "ht=0 "},
                  many_lengths(), 11);
}

// What serves many sequences: both ways, and pairs alone.
const std::vector<Variant> kMany = {{"by_lengths", ""}, {"fused", "groups=4 short_tokens=8"}};

}  // namespace

TEST_CASE("many sequences of two kinds in odd places", "[gpu][lengths]") {
  check_both(many_in_every_place(), {1, 2});
  check_on_device("many sequences in odd places", many_in_every_place(), kMany);
}

TEST_CASE("many sequences of two kinds from and to pools", "[gpu][lengths]") {
  check_pools_on_device("many sequences in pools", many_in_pools(), kMany);
}

TEST_CASE("many sequences of two kinds compose", "[strategy]") {
  const std::vector<Trial> trials = many_in_every_place();
  for (const Variant& each : kMany) {
    INFO(to_text(each));
    const Tally tally = compose_only("many sequences", trials, "sm_90a", {each});
    CHECK(tally.failed == 0);
    CHECK(tally.passed == static_cast<int>(trials.size()));
  }
}

TEST_CASE("both ways of a pack compose", "[strategy]") {
  for (const auto& each : kWays) {
    const std::vector<Trial> trials = both_in_every_place();
    const Tally tally =
        compose_only("both ways", trials, "sm_90a", {{"by_lengths", words_of(each)}});
    CHECK(tally.failed == 0);
    const auto served = std::count_if(trials.begin(), trials.end(), [&](const Trial& one) {
      const bool is_fused = each.first == 1;
      return one.problem.key_dim <= 128 && (!is_fused || one.problem.value_dim == 128);
    });
    CHECK(tally.passed == static_cast<int>(served));
  }
}
