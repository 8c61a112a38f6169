// The prepare stage beside the recurrence (chunk_wgmma, stages_at_once=2): on any host what is
// launched and refused, on the device that no chunk is taken before it is ready.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "abi/chunk_wgmma.h"
#include "abi/factors.h"
#include "plan/choose.hpp"
#include "plan/plan.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/chunk_wgmma.hpp"
#include "support/device_memory.hpp"
#include "support/pool_sweep.hpp"
#include "support/rig.hpp"
#include "support/scratch.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;
using abi::chunk_wgmma::Tuning;
using reference::InputSpec;
using strategy::chunk_wgmma;

namespace {

constexpr int kMultiprocessors = 132;  // an H200's

Result<compose::Recipe> compose_with(const Problem& problem, const Tuning& tuning) {
  return chunk_wgmma.compose(problem, h200(),
                             tunable::values_of(tuning, abi::chunk_wgmma::tunables));
}

compose::Recipe beside(const Problem& problem) {
  const auto recipe = compose_with(problem, {.stages_at_once = 2});
  INFO(recipe.status().message());
  REQUIRE(recipe);
  REQUIRE(recipe->stages.size() == 2);
  return *recipe;
}

std::vector<Variant> variants() {
  return {{"chunk_wgmma", "stages_at_once=2"},
          {"chunk_wgmma", "stages_at_once=2 load_stages=1"},
          {"chunk_wgmma", "stages_at_once=2 warpgroups=2 preparers=64"},
          {"chunk_wgmma", "stages_at_once=2 preparers=72"}};
}

// One chunk and its edges, several chunks, several sequences, none or one token long, beside a long
// one.
std::vector<Trial> lengths() {
  std::vector<Trial> out;
  for (const char* size : {"K=128 V=128 ", "K=64 V=64 ", "K=128 V=64 ", "K=64 V=256 "})
    for (const char* gate : {"g=bf16 ", "g=f32 "}) {
      const std::string words = std::string(size) + gate;
      for (const std::int64_t T : {0, 1, 31, 32, 33, 257}) out.push_back(trial(words, {T}));
      out.push_back(trial(words, {33, 33, 33}));
      out.push_back(trial(words + "H=1 HV=3", {130, 130}));
      out.push_back(trial(words + "varlen=1", {257, 0, 3, 40, 700}));
      out.push_back(trial(words + "varlen=1 H=2 HV=4 cu_seqlens=i32", {0, 1, 0, 1, 64}));
      out.push_back(trial(words + "varlen=1 h0=0 ht=0", {1, 300, 33}));
    }
  return out;
}

// The same of factors that are made with care: f16 and writes of two.
std::vector<Trial> careful_lengths() {
  std::vector<Trial> out;
  for (const char* words :
       {"qkv=f16 K=128 V=128 ", "qkv=f16 K=64 V=128 g=f32 gate=softplus ",
        "neg_eigval=1 K=128 V=128 g=f32 ", "neg_eigval=1 K=64 V=64 ",
        "qkv=f16 neg_eigval=1 K=128 V=64 beta=f32 ",
        "qkv=f16 K=128 V=128 l2norm=0 qk_normalized=1 beta_logit=0 beta_most_1=1 "}) {
    for (const std::int64_t T : {1, 32, 33, 600}) out.push_back(trial(words, {T}));
    out.push_back(trial(std::string(words) + "varlen=1 H=2 HV=4", {257, 0, 3, 40, 700}));
    out.push_back(trial(std::string(words) + "HV=4", std::vector<std::int64_t>(24, 300)));
  }
  return out;
}

// More tiles than groups, up to 20 each: every flag is raised by a group's later tiles too.  Steps
// that end on another head and in another sequence, and a plan's small runs.
std::vector<Trial> walks() {
  std::vector<std::int64_t> uneven;
  for (int n = 0; n < 24; ++n) uneven.push_back(n % 5 == 0 ? 0 : n % 7 == 0 ? 5000 : 40 * n + 1);
  // As many as a warp has lanes; alike, and each of its own length.
  const std::vector<std::int64_t> many(32, 1000);
  std::vector<std::int64_t> steps;
  for (int n = 0; n < 32; ++n) steps.push_back(n * 37 % 32 * 65);
  return {trial("HV=4", std::vector<std::int64_t>(24, 999)),
          trial("H=7 HV=7", std::vector<std::int64_t>(4, 4001)),
          trial("K=128 V=128 H=1 HV=1", {33000}),
          trial("HV=4 varlen=1", uneven),
          trial("HV=4 varlen=1", {1, 9000, 0, 31}),
          trial("H=1 HV=1 varlen=1", many),
          trial("H=1 HV=1 varlen=1", steps),
          trial("HV=4 varlen=1 T=65536 N=24", {3000, 0, 70}),
          trial("HV=4 varlen=1 T=65536 N=24", {1}),
          trial("HV=4 T=65536 N=24", {7000, 7000}),
          trial("HV=4 T=65536 N=24", {1})};
}

// Groups of one block on different ways to build scores, too.
std::vector<Trial> gates() {
  std::vector<Trial> out;
  const std::string words = "g=f32 beta=f32 gate=log_decay K=128 ";
  for (const InputSpec& spec : gates_of_every_way()) {
    out.push_back(trial(words + "V=64", {300}, spec));
    out.push_back(trial(words + "V=64 HV=4", std::vector<std::int64_t>(12, 700), spec));
    out.push_back(trial(words + "V=64 qkv=f16", {300}, spec));
    out.push_back(trial(words + "V=64 beta_logit=1 neg_eigval=1", {300}, spec));
  }
  return out;
}

std::vector<Trial> places() {
  std::vector<Trial> out = in_every_place(trial("K=128 V=128 HV=4 varlen=1", {300, 0, 33, 129}));
  for (const char* words : {"qkv=f16 K=128 V=128 HV=4 varlen=1 ", "neg_eigval=1 K=64 V=64 "}) {
    for (Trial& one : in_every_place(trial(words, {300}))) out.push_back(std::move(one));
  }
  out.push_back(trial("varlen=1", {0, 0}));
  out.back().tail = 40;
  return out;
}

// The seventh sequence is padding: its chunks are prepared and nobody takes them.
std::vector<PoolTrial> pools() {
  std::vector<PoolTrial> out;
  for (const char* words : {"varlen=1 K=128 V=128", "varlen=1 h0=0 zero_padding=1",
                            "varlen=1 K=128 V=64 checkpoint=64"}) {
    PoolTrial one;
    one.trial = trial(std::string("pool=1 ") + words,
                      {33, 0, 100, 1, 64, 257, 300, 5, 16, 31, 32, 48, 40, 90});
    SlotsSpec spec;
    spec.sequences = static_cast<int>(one.trial.lengths.size());
    spec.checkpoint_columns = one.trial.problem.checkpoint_tokens > 0 ? 5 : 0;
    one.slots = make_slots(spec);
    out.push_back(one);
  }
  return out;
}

// One plan and runs of it, each with other lengths and inputs.
struct Runs {
  std::vector<Trial> trials;
  Plan plan;
};
Runs make_runs(bool packed) {
  std::vector<std::vector<std::int64_t>> lengths = {std::vector<std::int64_t>(24, 500)};
  if (packed) {
    lengths.insert(lengths.end(), {{9000, 0, 33}, {1}, {64, 700, 1, 7000}});
  } else {
    lengths.insert(lengths.end(), {{9000}, {1}, {0}, {700, 700, 700, 700}});
  }
  std::vector<Trial> trials;
  for (const std::vector<std::int64_t>& one : lengths) {
    InputSpec spec;
    spec.seed = trials.size() + 1;
    const char* words = packed ? "HV=4 varlen=1 T=12000 N=24" : "HV=4 T=12000 N=24";
    trials.push_back(complete(trial(words, one, spec)));
  }
  auto plan =
      Plan::make(trials[0].problem, {.strategy = "chunk_wgmma", .tuning = "stages_at_once=2"});
  INFO(plan.status().message());
  REQUIRE(plan);
  return {std::move(trials), *std::move(plan)};
}

}  // namespace

TEST_CASE("prepare beside takes the multiprocessors that the recurrence leaves", "[strategy]") {
  const Problem problem = problem_in_words("T=65536 N=4 H=8 varlen=1");  // V in two shards
  const compose::Recipe recipe = beside(problem);
  const int groups = static_cast<int>(recipe.stages[0].threads) /
                     abi::factors::threads(problem::shape_of(problem));
  CHECK(groups == 4);
  const auto blocks = [&](std::int64_t tokens, int sequences) {
    Forward forward{.tokens = tokens, .sequences = sequences};
    problem::fill_strides(problem, forward);
    compose::Launch prepare, recurrence;
    recipe.stages[0].bind({forward, nullptr}, prepare);
    recipe.stages[1].bind({forward, nullptr}, recurrence);
    const int n = static_cast<int>(prepare.grid[0]);
    if (tokens == 0) return n;

    const std::int64_t tiles = (tokens / 32 + sequences) * problem.value_heads;
    CHECK(n >= 1);
    CHECK(n <= tiles);
    CHECK(n + static_cast<int>(recurrence.grid[0]) <= kMultiprocessors);
    abi::chunk::PrepareArgs args;
    std::memcpy(&args, prepare.args, sizeof args);
    CHECK(args.factors.slots == tokens / 32 + sequences);
    // The step of all groups, in heads, sequences and chunks.
    CHECK(args.walk.heads < problem.value_heads);
    CHECK(args.walk.sequences < sequences);
    CHECK((args.walk.chunks * sequences + args.walk.sequences) * problem.value_heads +
              args.walk.heads ==
          n * groups);
    return n;
  };
  CHECK(blocks(65536, 4) == kMultiprocessors - 64);
  // Small runs of the same plan.
  CHECK(blocks(65536, 3) == kMultiprocessors - 48);
  CHECK(blocks(65536, 1) == kMultiprocessors - 16);
  CHECK(blocks(1, 1) == 8);
  CHECK(blocks(64, 1) == 24);
  CHECK(blocks(1, 4) == 32);
  CHECK(blocks(0, 4) == 0);
  for (const std::int64_t tokens : {31, 32, 33, 400, 5000})
    for (int sequences = 1; sequences <= 4; ++sequences) blocks(tokens, sequences);
}

TEST_CASE("no two blocks share a multiprocessor where stages are at once", "[strategy]") {
  for (const char* words :
       {"K=128 V=128 g=bf16 ", "K=128 V=64 g=f32 ", "K=64 V=64 g=bf16 ", "K=64 V=64 g=f32 "}) {
    INFO(words);
    const compose::Recipe recipe = beside(problem_in_words(words + std::string("H=4")));
    const std::size_t prepare = recipe.stages[0].shared_bytes;
    const std::size_t recurrence = recipe.stages[1].shared_bytes;
    CHECK(recipe.stages[1].overlaps_previous);
    CHECK(prepare <= h200().shared_per_block);
    CHECK(2 * prepare > h200().shared_per_multiprocessor);
    CHECK(2 * (recurrence + 1024) > h200().shared_per_multiprocessor);
    CHECK(prepare + recurrence > h200().shared_per_multiprocessor);
  }
}

TEST_CASE("stages at once want a word of workspace a chunk and value head", "[strategy]") {
  for (const char* words : {"T=8192 H=16", "T=33 H=1", "T=10000 N=3 H=2 HV=6 varlen=1"}) {
    const Problem problem = problem_in_words(words);
    INFO(words);
    const auto after = compose_with(problem, {});
    REQUIRE(after);
    const std::size_t more = beside(problem).workspace_bytes - after->workspace_bytes;
    const std::size_t flags = static_cast<std::size_t>(
        4 * (problem.max_tokens / 32 + problem.max_sequences) * problem.value_heads);
    CHECK(more == (flags + 255) / 256 * 256);
  }
}

TEST_CASE("stages at once are refused where they do not serve, in words", "[strategy]") {
  const auto refused = [](const char* words, Tuning tuning, const char* part) {
    tuning.stages_at_once = 2;
    const Status status = compose_with(problem_in_words(words), tuning).status();
    INFO(words << ": " << status.message());
    CHECK(status.code() == Code::unsupported);
    CHECK_THAT(status.message(), contains("stages_at_once=2"));
    CHECK_THAT(status.message(), contains("stages_at_once=1 does"));
    CHECK_THAT(status.message(), contains(part));
  };
  refused("H=4 qkv=f16 K=192", {}, "key_dim is 192 with qkv_type f16; 64 and 128 are served");
  refused("H=4 l2norm=0", {}, "l2norm");
  refused("H=4 neg_eigval=1 K=256", {},
          "key_dim is 256 with allow_neg_eigval; 64 and 128 are served");
  refused("H=4 beta_logit=0", {}, "beta_at_most_one are false");
  refused("H=4 K=96", {}, "key_dim is 96; multiples of 64");
  refused("H=4", {.chunk = 64, .prepare_threads = 512, .load_stages = 2},
          "chunk is 64; 32 is served");
  refused("H=4", {.chunk = 16, .prepare_threads = 128}, "chunk is 16; 32 is served");
  refused("H=50", {}, "100 of 132 multiprocessors");
  refused("H=25 N=4 V=64", {}, "100 of 132 multiprocessors");
  refused("H=64 N=65536", {}, "8388608 of 132 multiprocessors");
  refused("H=64 N=65536 varlen=1", {}, "up to 32 are served");
  refused("H=1 N=33 V=64 varlen=1", {}, "max_sequences=33 and varlen");
  CHECK(compose_with(problem_in_words("H=1 N=32 V=64 varlen=1"), {.stages_at_once = 2}));
  CHECK(compose_with(problem_in_words("H=49"), {.stages_at_once = 2}));
  CHECK(compose_with(problem_in_words("H=99"), {.warpgroups = 2, .stages_at_once = 2}));
}

TEST_CASE("stages are at once where that is expected to be faster, and where asked", "[strategy]") {
  const auto flags = [](const char* words, const Options& options) {
    const auto choice = plan::choose(problem_in_words(words), h200(), options);
    REQUIRE(choice);
    return choice->recipe.stages[0].prelude.find(".flags = 1") != std::string::npos;
  };
  const Options own{.strategy = "chunk_wgmma"};
  CHECK(flags("T=8192 H=24", own));        // 162 us, else some 210
  CHECK(flags("T=256 H=32", own));         // 16.3 us, else 18.4
  CHECK(flags("T=1024 H=4", own));         // 23.7 us, else 24.4
  CHECK(flags("T=64 H=4", own));           // 8.7 us, else 9.6
  CHECK_FALSE(flags("T=8192 H=72", own));  // too few left to prepare
  // With care, by one warpgroup and by two: 233 us, else 315; 308, else 362; 245, else 311.
  CHECK(flags("T=8192 H=24 qkv=f16", own));
  CHECK(flags("T=8192 H=32 qkv=f16", own));
  CHECK(flags("T=8192 H=32 neg_eigval=1", own));
  CHECK_FALSE(flags("T=8192 H=64 qkv=f16", own));
  CHECK_FALSE(flags("T=8192 H=24", {.strategy = "chunk_wgmma", .tuning = "stages_at_once=1"}));
  CHECK(flags("T=64 H=4", {.strategy = "chunk_wgmma", .tuning = "stages_at_once=2"}));
}

TEST_CASE("groups bring tiles into the L2 ahead but where the chains are slower", "[strategy]") {
  const auto ahead = [](const char* words, const Tuning& tuning) {
    const Problem problem = problem_in_words(words);
    const auto recipe = compose_with(problem, tuning);
    INFO(words << ": " << recipe.status().message());
    REQUIRE(recipe);
    Forward forward{.tokens = problem.max_tokens, .sequences = problem.max_sequences};
    problem::fill_strides(problem, forward);
    compose::Launch launch;
    recipe->stages[0].bind({forward, nullptr}, launch);
    abi::chunk::PrepareArgs args;
    std::memcpy(&args, launch.args, sizeof args);
    return args.walk.ahead != 0;
  };
  const Tuning one{.stages_at_once = 2};
  const Tuning two{.warpgroups = 2, .stages_at_once = 2};
  CHECK_FALSE(ahead("T=8192 H=16", one));  // 129 us, else 132
  CHECK(ahead("T=8192 H=24", one));        // 154 us, else 160
  CHECK(ahead("T=8192 H=32", two));        // as many microseconds either way
  CHECK(ahead("T=8192 H=12 N=4", two));    // 91 us, else 94
  CHECK(ahead("T=8192 H=16 N=257 varlen=1 mixed=1",
              {.stages_at_once = 2, .short_tokens = 8}));  // decodes hold up the chains, too
}

TEST_CASE("stages at once compose where they serve", "[strategy]") {
  for (const auto& trials :
       {lengths(), careful_lengths(), walks(), gates(), places(), plain(pools())}) {
    const Tally tally = compose_only("stages at once", trials, "sm_90a", variants());
    CHECK(tally.failed == 0);
    CHECK(tally.refused == 0);  // what check_on_device would pass by
  }
}

TEST_CASE("stages at once do not spill", "[strategy][compile]") {
  constexpr const char* kCases[] = {
      "K=128 V=128 H=4 h0=1 ht=1",
      "K=128 V=64 H=2 HV=4 N=3 varlen=1 g=f32 gate=log_decay beta=f32 ht=1",
      "K=64 V=64 H=4 N=3 varlen=1 gate=softplus",
      "K=64 V=256 H=2 h0=1 ht=1 pool=1 checkpoint=64",
      "K=64 V=64 H=4 g=f32",
      "K=64 V=64 H=4 g=f32 varlen=1 gate=log_decay h0=1 ht=1",
  };
  const Scratch cache;
  std::vector<Problem> problems;
  for (const char* words : kCases) problems.push_back(problem_in_words(words));
  for (const Variant& variant : variants()) {
    const auto plans = plan::make_all(problems, {.target = "sm_90a",
                                                 .cache_dir = cache.path(),
                                                 .strategy = variant.strategy,
                                                 .tuning = variant.tuning});
    for (std::size_t i = 0; i < plans.size(); ++i) {
      INFO(to_text(variant) << " | " << kCases[i] << ": " << plans[i].status().message());
      REQUIRE(plans[i]);
      for (const program::Kernel& kernel : (*plans[i])->program.kernels)
        CHECK(kernel.resources.spill_bytes == 0);
    }
  }
}

TEST_CASE("stages at once at every length", "[gpu][beside]") {
  check_on_device("beside lengths", lengths(), variants());
  check_on_device("beside lengths, with care", careful_lengths(), variants());
}

TEST_CASE("stages at once where groups have many chunks", "[gpu][beside]") {
  check_on_device("beside walks", walks(), variants());
}

TEST_CASE("stages at once under every gate", "[gpu][beside]") {
  check_on_device("beside gates", gates(), variants());
}

TEST_CASE("stages at once in odd places", "[gpu][beside]") {
  check_on_device("beside places", places(), variants());
}

TEST_CASE("stages at once from and to pools", "[gpu][beside]") {
  check_pools_on_device("beside pools", pools(), variants());
}

// Every block lowered a share of all flags once its own first rows had come: those of a block with
// few rows to bring were raised before a slower block lowered them, and the chains waited for ever.
// "A short stage in odd places" met it beside short sequences.
TEST_CASE("stages at once whose blocks begin far apart", "[gpu][beside]") {
  std::vector<Trial> trials;
  for (const char* words : {"K=128 V=128 HV=4 varlen=1", "K=64 V=64 g=f32 varlen=1"}) {
    Trial slow = trial(words, {1, 300, 1, 2, 129, 1, 33});
    slow.layout = Layout::gapped;  // rows come element by element
    trials.push_back(slow);
  }
  check_on_device("beside slow rows", trials, variants());
}

// A flag that the run before left raised would let the recurrence take that run's factors.
TEST_CASE("stages at once do not see the flags of the run before", "[gpu][beside]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const bool packed : {true, false}) {
    const Runs runs = make_runs(packed);
    const DeviceMemory kept(gpu, runs.plan.workspace_bytes());
    for (int round = 0; round < 3; ++round)
      for (const Trial& one : runs.trials) {
        INFO("round " << round << " | " << to_text(one));
        Truth truth(one);
        Rig rig(gpu, one, truth.tensors());
        CHECK(rig.run(runs.plan) == "");  // in poisoned workspace
        const auto fresh = rig.output_bits();
        if (round == 0) CHECK(truth.judge(rig.outputs()) == "");
        const auto in_kept = [&](const Forward& forward, void*, std::size_t, Stream stream) {
          return runs.plan.run(forward, kept.data(), kept.bytes(), stream);
        };
        CHECK(rig.run(in_kept, 1) == "");
        CHECK((rig.output_bits() == fresh));  // in brackets: Catch2 would print both
        CHECK(kept.canary_damage() == "");
      }
  }
}

// Runs one upon the other, no wait between: the next may not touch flags or factors too early.
// Then with one of another strategy behind each, whose kernel may begin as early as a prepare.
TEST_CASE("stages at once run after run, in a stream and in a graph", "[gpu][beside]") {
  if (!on_device()) return;
  const Gpu gpu;
  const launch::Driver& driver = gpu.driver();
  for (const bool packed : {true, false}) {
    const Runs runs = make_runs(packed);
    const auto other = Plan::make(runs.trials[0].problem, {.strategy = "recurrent"});
    REQUIRE(other);
    const Plan* const plans[] = {&runs.plan, &*other};
    std::vector<Truth> truths(runs.trials.begin(), runs.trials.end());
    std::vector<std::unique_ptr<Rig>> rigs;  // of each trial one a plan
    std::vector<std::vector<std::byte>> alone;
    for (std::size_t i = 0; i < truths.size(); ++i)
      for (const Plan* plan : plans) {
        rigs.push_back(std::make_unique<Rig>(gpu, runs.trials[i], truths[i].tensors()));
        CHECK(rigs.back()->run(*plan) == "");
        alone.push_back(rigs.back()->output_bits());
      }
    const DeviceMemory workspace(gpu,
                                 std::max(runs.plan.workspace_bytes(), other->workspace_bytes()));
    const auto enqueue_all = [&] {
      for (const std::size_t step : {2, 1})
        for (std::size_t i = 0; i < rigs.size(); i += step) {
          const Status status = plans[i % 2]->run(rigs[i]->forward(), workspace.data(),
                                                  workspace.bytes(), gpu.stream());
          CHECK(status);
        }
    };
    const auto check_all = [&](const char* how) {
      INFO(how);
      gpu.synchronize();
      for (std::size_t i = 0; i < rigs.size(); ++i) {
        INFO(to_text(runs.trials[i / 2]) << (i % 2 == 0 ? "" : " | recurrent"));
        CHECK((rigs[i]->output_bits() == alone[i]));
        CHECK(rigs[i]->damage() == "");
        rigs[i]->reset();
      }
      gpu.synchronize();
    };
    for (const auto& rig : rigs) rig->reset();
    gpu.synchronize();
    for (int times = 0; times < 3; ++times) enqueue_all();
    check_all("in a stream");

    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    must(driver.StreamBeginCapture(gpu.stream(), CU_STREAM_CAPTURE_MODE_GLOBAL), "begin capture");
    enqueue_all();
    must(driver.StreamEndCapture(gpu.stream(), &graph), "end capture");
    must(driver.GraphInstantiate(&executable, graph, 0), "instantiate");
    for (const char* how : {"in a graph", "in a graph again"}) {
      must(driver.GraphLaunch(executable, gpu.stream()), "launch the graph");
      check_all(how);
    }
    for (int times = 0; times < 2; ++times)
      must(driver.GraphLaunch(executable, gpu.stream()), "launch the graph");
    check_all("in two graphs, no wait between");
    must(driver.GraphExecDestroy(executable), "destroy the graph");
    must(driver.GraphDestroy(graph), "destroy the graph");
  }
}
