// Strategy segments with prepare beside the walk: on any host what is launched and refused, on the
// device that states are carried into segments as exactly as if there were one.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "abi/segments.h"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/segments.hpp"
#include "support/one_run.hpp"
#include "support/open_channel.hpp"
#include "support/pool_sweep.hpp"
#include "support/rig.hpp"
#include "support/spoilt_column.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;
using abi::segments::Tuning;
using reference::GatePattern;
using reference::InputSpec;
using strategy::segments;

namespace {

Result<compose::Recipe> compose_with(const Problem& problem, const Tuning& tuning) {
  return segments.compose(problem, h200(), tunable::values_of(tuning, abi::segments::tunables));
}

// The blocks of all stages for one run.
std::vector<unsigned> blocks_of(const char* words, const Tuning& tuning, Forward forward) {
  const Problem problem = problem_in_words(std::string(words) + " h0=1 ht=1");
  const auto recipe = compose_with(problem, tuning);
  INFO(recipe.status().message());
  REQUIRE(recipe);
  problem::fill_strides(problem, forward);
  std::vector<unsigned> blocks;
  for (const compose::Stage& stage : recipe->stages) {
    compose::Launch launch;
    stage.bind({forward, nullptr}, launch);
    blocks.push_back(launch.grid[0] * launch.grid[1]);
  }
  return blocks;
}

// By hand and by the copy engine, one and two tiles of V a block, few segments and many.
constexpr const char* kTunings[] = {
    "chunk=32 segment=16 prepare_threads=256 segments=2 warpgroups=1 load_stages=2",
    "chunk=32 segment=16 prepare_threads=256 segments=3 warpgroups=1 load_stages=6",
    "chunk=32 segment=16 prepare_threads=256 segments=5 warpgroups=2 load_stages=6",
    "chunk=32 segment=16 prepare_threads=256 segments=20 warpgroups=1 load_stages=1"};

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const char* tuning : kTunings) out.push_back({"segments", tuning});
  return out;
}

// And by pairs of blocks that make factors in shared memory (strategy by_gates).
constexpr const char* kPairs[] = {"segments=2 otherwise=2 carries=2",
                                  "segments=5 otherwise=3 carries=2"};
std::vector<Variant> pairs() {
  std::vector<Variant> out;
  for (const char* tuning : kPairs) out.push_back({"by_gates", tuning});
  return out;
}

// Each kind for itself: something is to pass by both.
void check_both_on_device(const std::string& title, const std::vector<Trial>& trials) {
  check_on_device(title.c_str(), trials, variants());
  check_on_device((title + " by pairs").c_str(), trials, pairs());
}

// No token, less than a segment, ends in the midst of a chunk; fewer chunks than segments.
std::vector<Trial> lengths() {
  std::vector<Trial> out;
  for (const char* size : {"K=128 V=128 ", "K=64 V=64 ", "K=128 V=256 ", "K=64 V=192 "}) {
    for (const std::int64_t T : {0, 1, 31, 32, 33, 65, 129, 400, 700})
      out.push_back(trial(size, {T}));
    out.push_back(trial(size, {130, 130, 130}));
    out.push_back(trial(std::string(size) + "H=1 HV=3 h0=0", {500, 500}));
    out.push_back(trial(std::string(size) + "layout=key_first state=bf16", {700}));
    out.push_back(trial(std::string(size) + "ht=0 g=f32", {900}));
  }
  return out;
}

// A state that is never forgotten, forgotten at once, and in one channel alone.
std::vector<Trial> gates() {
  std::vector<Trial> out;
  for (const InputSpec& spec : gates_of_every_way())
    out.push_back(trial("g=f32 beta=f32 gate=log_decay K=128 V=128", {900}, spec));
  for (const char* size : {"K=64 V=192", "K=64 V=64", "K=128 V=256"}) {  // of T other tiles
    InputSpec spec;
    spec.gate = GatePattern::constant;
    spec.gate_value = 0.0;
    out.push_back(trial(std::string("g=f32 gate=log_decay h0=0 ") + size, {900, 900}, spec));
  }
  for (const double beta : {0.0, 1.0}) {
    InputSpec spec;
    spec.gate = GatePattern::weak;
    spec.beta = beta;
    out.push_back(trial("beta_logit=0 beta_most_1=1 K=128 V=128", {900}, spec));
  }
  return out;
}

// What pairs serve: random keys, which forget within a segment, where they are written a tenth as
// strongly within 200 chunks of one, or soon.
std::vector<Trial> long_segments() {
  std::vector<Trial> out;
  const auto add = [&](GatePattern gate, double beta, std::int64_t tokens) {
    InputSpec spec;
    spec.gate = gate;
    spec.beta = beta;
    out.push_back(trial("beta_logit=0 beta_most_1=1 K=128 V=128 H=1 HV=2", {tokens}, spec));
  };
  for (const GatePattern gate : {GatePattern::weak, GatePattern::mixed, GatePattern::strong}) {
    add(gate, 0.5, 2 * 32 * 260);
    add(gate, 0.1, 2 * 32 * 200);
  }
  return out;
}

// States that are all there is, or little beside values; and all so small that squares are nothing,
// or so large that they are infinite.
std::vector<Trial> magnitudes() {
  std::vector<Trial> out;
  for (const double v : {0.0, 1e-3, 1.0, 1e3})
    for (const double state : {1e-3, 1.0, 1e3})
      for (const GatePattern gate : {GatePattern::weak, GatePattern::strong}) {
        if (v == 0.0 && gate == GatePattern::strong) continue;  // rounding is all there is
        InputSpec spec;
        spec.v_scale = v;
        spec.state_scale = state;
        spec.gate = gate;
        out.push_back(trial("K=128 V=128", {600}, spec));
      }
  InputSpec small;
  small.v_scale = small.state_scale = 1e-25;
  small.gate = GatePattern::weak;
  out.push_back(trial("K=128 V=128", {600}, small));
  InputSpec large;
  large.v_scale = large.state_scale = 1e22;
  large.gate = GatePattern::weak;
  out.push_back(trial("K=128 V=128", {600}, large));
  return out;
}

// The final state over the initial one, strides, rows that no 16-byte copy can load, more segments
// than multiprocessors have room for, and a plan's small runs.
std::vector<Trial> places() {
  std::vector<Trial> out;
  Trial one = trial("K=128 V=128 HV=4", {700, 700});
  one.in_place_state = true;
  out.push_back(one);
  for (const Layout layout : {Layout::heads_first, Layout::sliced, Layout::gapped}) {
    one.layout = layout;
    out.push_back(one);
  }
  one.misaligned = 1;
  out.push_back(one);
  out.push_back(trial("HV=4 T=65536 N=12", {7000, 7000}));
  out.push_back(trial("HV=4 T=65536 N=12", {1}));
  out.push_back(trial("HV=4 T=65536 N=12", std::vector<std::int64_t>(12, 200)));
  out.push_back(trial("K=128 V=128 H=1 HV=1", {33000}));
  return out;
}

std::vector<PoolTrial> pools() {
  std::vector<PoolTrial> out;
  for (const char* words :
       {"K=128 V=128 ", "K=64 V=128 zero_padding=1 state=bf16 layout=key_first ",
        "K=128 V=128 h0=0 slots=i64 ", "K=64 V=128 ht=0 zero_padding=1 "}) {
    PoolTrial one;
    one.trial = trial(std::string("pool=1 H=1 HV=2 ") + words, std::vector<std::int64_t>(8, 330));
    one.slots = make_slots({.sequences = 8,
                            .prefixes = std::string(words).find("h0=0") == std::string::npos,
                            .seed = out.size() + 1});
    one.gap = 64;
    out.push_back(one);
  }
  return out;
}

// By a decay of so much a token what is carried is below 2^-11 after 8 / (decay + 1 / 360) tokens.
Trial decaying(double decay, double v, std::int64_t tokens = 9000) {
  InputSpec spec;
  spec.gate = GatePattern::constant;
  spec.gate_value = -decay;
  spec.v_scale = v;
  return complete(trial("g=f32 gate=log_decay K=128 V=128 H=1 HV=2", {tokens}, spec));
}

// Of a run by such a plan.
auto errors_of(const Gpu& gpu, const Trial& one, Truth& truth, const char* strategy,
               const char* tuning) {
  const auto plan = Plan::make(one.problem, {.strategy = strategy, .tuning = tuning});
  INFO(strategy << " " << tuning << " | " << to_text(one) << ": " << plan.status().message());
  REQUIRE(plan);
  Rig rig(gpu, one, truth.tensors());
  CHECK(rig.run(*plan) == "");
  truth.judge(rig.outputs());
  return truth.last_errors();
}

}  // namespace

TEST_CASE("segments beside prepare are three kernels, of as many blocks as segments",
          "[strategy]") {
  using Blocks = std::vector<unsigned>;
  const Tuning five{.warpgroups = 2, .segments = 5};
  // 2048 chunks by five are four of 410, and one of 408: 65536 / 13120 + 1 slots of 8 heads.
  CHECK(blocks_of("T=65536 H=8", five, {.tokens = 65536}) == Blocks{132 - 40, 40, 80});
  CHECK(blocks_of("T=65536 H=8", {.warpgroups = 1, .segments = 5}, {.tokens = 65536}) ==
        Blocks{132 - 80, 80, 80});
  // Of a smaller run they are shorter, and of few chunks fewer.
  CHECK(blocks_of("T=65536 H=8", five, {.tokens = 4096}) == Blocks{132 - 40, 40, 80});
  CHECK(blocks_of("T=65536 H=8", five, {.tokens = 32}) == Blocks{16, 16, 32});
  // Of more sequences each has fewer: 99 blocks are 12 segments, of three sequences four each.
  CHECK(blocks_of("T=65536 H=8 N=3", five, {.tokens = 65535, .sequences = 3}) ==
        Blocks{132 - 99, (65535U / (171 * 32) + 3) * 8, (65535U / (171 * 32) + 3) * 16});
}

TEST_CASE("segments beside prepare are refused where they do not serve, in words", "[strategy]") {
  const auto refused = [](const char* words, const Tuning& tuning, const char* why) {
    const Status status = compose_with(problem_in_words(words), tuning).status();
    INFO(words << ": " << status.message());
    CHECK(status.code() == Code::unsupported);
    CHECK(status.message().find(why) != std::string::npos);
    CHECK(status.message().find("does") != std::string::npos);  // and what would
  };
  const Tuning tuning{.segments = 4};
  CHECK(compose_with(problem_in_words("T=8192 H=4"), tuning));
  refused("T=8192 H=4", {.segment = 32, .segments = 4}, "segment=32");
  refused("T=8192 H=4", {.chunk = 16, .prepare_threads = 128, .segments = 4},
          "chunk is 16; 32 is served");
  refused("T=8192 H=4 varlen=1", tuning, "varlen");
  refused("T=8192 H=4 pool=1 ht=1 checkpoint=512", tuning, "checkpoint_tokens=512");
  refused("T=8192 H=4 qkv=f16", tuning, "qkv_type is f16; bf16 is served");
  refused("T=8192 H=4 l2norm=0", tuning, "l2norm");
  refused("T=8192 H=4 V=192", tuning, "value_dim is 192");
  refused("T=8192 H=4 scale=1e-20", tuning, "scale = 1e-20");
  refused("T=8192 H=64", tuning, "128 or more of 132 multiprocessors");
  refused("T=4294967296 H=1", tuning, "max_tokens=4294967296");
}

TEST_CASE("segments beside prepare compose where they serve", "[strategy]") {
  for (const auto& trials :
       {lengths(), gates(), long_segments(), magnitudes(), places(), plain(pools())}) {
    const Tally tally = compose_only("carried", trials, "sm_90a", variants());
    CHECK(tally.failed == 0);
    CHECK(tally.passed > 0);
  }
  for (const auto& trials : {lengths(), long_segments(), magnitudes(), places()}) {
    const Tally tally = compose_only("carried by pairs", trials, "sm_90a", pairs());
    CHECK(tally.failed == 0);
    CHECK(tally.passed > 0);
  }
}

TEST_CASE("states carried through segments of every length", "[gpu][carried]") {
  check_both_on_device("carried lengths", lengths());
}

TEST_CASE("states carried under every gate", "[gpu][carried]") {
  check_on_device("carried gates", gates(), variants());
}

TEST_CASE("states carried by looks early and late", "[gpu][carried]") {
  check_both_on_device("carried far", long_segments());
}

TEST_CASE("states carried of every magnitude", "[gpu][carried]") {
  check_both_on_device("carried magnitudes", magnitudes());
}

TEST_CASE("states carried in odd places", "[gpu][carried]") {
  check_both_on_device("carried places", places());
}

TEST_CASE("states carried from and to pools", "[gpu][carried]") {
  check_pools_on_device("carried pools", pools(), variants());
}

// Nothing is left at a segment's end, or something in each, which meets all later ones.
TEST_CASE("what is carried ends where nothing is seen of it, as exactly", "[gpu][carried]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const double decay : {0.1, 0.01, 0.003, 0.0}) {
    for (const double v : {1.0, 0.0}) {
      if (decay == 0.1 && v == 0.0) continue;  // rounding is all there is
      const Trial one = decaying(decay, v);
      Truth truth(one);
      const auto whole = errors_of(gpu, one, truth, "segments",
                                   "chunk=32 prepare_threads=256 segment=1024 segments=1");
      for (const char* tuning : kTunings) {
        const auto cut = errors_of(gpu, one, truth, "segments", tuning);
        INFO(tuning << " | " << to_text(one));
        // What is added to o is rounded with it, once in each turn; and T, by which what is left at
        // many ends goes on, is rounded in each segment.
        CHECK(cut.o.rel_l2 < 1.15 * whole.o.rel_l2 + 1e-4);
        CHECK(cut.state.rel_l2 < (v == 0.0 ? 1.2 : 1.05) * whole.state.rel_l2 + 1e-4);
      }
    }
  }
}

namespace {

// What a run's blocks told each other at the ends of all but the first and the last segments, by
// segment slot, head and tile of V.
std::vector<unsigned> ends_of(const Gpu& gpu, const Trial& one, const reference::Tensors& tensors,
                              const char* tuning) {
  const auto plan = Plan::make(one.problem, {.strategy = "segments", .tuning = tuning});
  REQUIRE(plan);
  const auto values =
      tunable::parse(tuning, segments.space(), segments.defaults(one.problem, h200()));
  REQUIRE(values);
  const auto recipe = segments.compose(one.problem, h200(), *values);
  REQUIRE(recipe);
  const auto shape = problem::shape_of(one.problem);
  std::vector<unsigned> ends;
  Rig rig(gpu, one, tensors);
  const auto run = [&](const Forward& forward, void* workspace, std::size_t bytes, Stream stream) {
    const Status status = plan->run(forward, workspace, bytes, stream);
    gpu.synchronize();
    compose::Launch launch;
    recipe->stages[2].bind({forward, static_cast<std::byte*>(workspace)}, launch);
    abi::segments::Args args;
    std::memcpy(&args, launch.args, sizeof args);
    const std::int64_t slots = one.tokens() / (std::int64_t{args.segments.chunks} * 32);
    const auto each =
        static_cast<std::size_t>(one.problem.value_heads * abi::segments::value_tiles(shape));
    ends.resize(static_cast<std::size_t>(slots - 1) * each);
    must(gpu.driver().MemcpyDtoH(ends.data(),
                                 reinterpret_cast<CUdeviceptr>(args.carried.ends + each),
                                 ends.size() * sizeof(unsigned)),
         "download");
    return status;
  };
  CHECK(rig.run(run, plan->workspace_bytes()) == "");
  return ends;
}

}  // namespace

// Columns without values, of which nothing is left at once, would keep
// all of their block going to the end were nothing not little beside nothing.
TEST_CASE("what is carried ends beside columns that have none", "[gpu][carried]") {
  if (!on_device()) return;
  const Gpu gpu;
  Trial one = decaying(0.01, 1.0);
  one.problem.initial_state = false;
  Truth truth(one);
  reference::Tensors tensors = truth.tensors();
  auto* v = reinterpret_cast<std::uint16_t*>(tensors.v.data());
  for (std::size_t t = 0; t < 9000; ++t) {
    for (const int column : {3, 77, 128, 136}) v[t * 256 + static_cast<std::size_t>(column)] = 0;
  }
  for (const char* tuning : {kTunings[1], kTunings[2]}) {
    INFO(tuning);
    const std::vector<unsigned> ends = ends_of(gpu, one, tensors, tuning);
    CHECK(!ends.empty());
    for (const unsigned end : ends) CHECK(end == abi::segments::nothing_left);
  }
  // And where states are all there is they are carried on.
  Trial still = decaying(0.0, 0.0);
  Truth same(still);
  int left = 0, much = 0;
  for (const unsigned end : ends_of(gpu, still, same.tensors(), kTunings[2])) {
    left += (end & ~abi::segments::much_left) == abi::segments::something_left ? 1 : 0;
    much += (end & abi::segments::much_left) != 0 ? 1 : 0;
  }
  CHECK(left == 3 * 2 * 2);  // segments between the first and the last, heads, tiles
  CHECK(much == 2 * 2);      // those of the second, as what later ones begin with is all carried
}

TEST_CASE("what is left of an open channel is all there is", "[strategy]") {
  OpenChannel(2, 1280).check_truth();
  OpenChannel(3, 2048, 64, 5).check_truth();
}

// The bug: what was carried ended where it was little beside each V column of what had been written
// since, in other channels, too; once gates had cleared these nothing was left of the state.
TEST_CASE("a channel that stays open is carried beside others", "[gpu][carried]") {
  if (!on_device()) return;
  const Gpu gpu;
  // Of 20 segments asked for a device of 132 multiprocessors has room for six of these heads.
  const int segments_of[] = {2, 3, 5, 6};
  for (std::size_t i = 0; i < std::size(kTunings); ++i) {
    check_open_channel(gpu, OpenChannel(segments_of[i], 1280), "segments", kTunings[i]);
  }
}

TEST_CASE("every channel that stays open is carried beside others", "[gpu][carried]") {
  if (!on_device()) return;
  check_every_open_channel(Gpu(), "segments", kTunings[0]);
}

TEST_CASE("an infinite state is carried to the end", "[gpu][carried]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const double decay : {0.01, 50.0}) {
    const Trial one = decaying(decay, 1.0);
    Truth truth(one);
    reference::Tensors tensors = truth.tensors();
    spoil_column(tensors);
    for (const char* tuning : kTunings) {
      INFO(tuning << " | " << to_text(one));
      const auto plan = Plan::make(one.problem, {.strategy = "segments", .tuning = tuning});
      REQUIRE(plan);
      Rig rig(gpu, one, tensors);
      CHECK(rig.run(*plan) == "");
      check_only_that_is_spoilt(rig.outputs(), 256);
    }
  }
}

// What blocks have told each other in one run, and what T was, the next one must not see.
TEST_CASE("a run after one in which more or less was left", "[gpu][carried]") {
  if (!on_device()) return;
  const Gpu gpu;
  const Trial forgets = decaying(0.01, 1.0), keeps = decaying(0.0, 1.0);
  Truth first(forgets), second(keeps);
  for (const char* tuning : kTunings) {
    INFO(tuning);
    const auto plan = Plan::make(forgets.problem, {.strategy = "segments", .tuning = tuning});
    REQUIRE(plan);
    check_behind(gpu, *plan, forgets, first, keeps, second);
    check_behind(gpu, *plan, keeps, second, forgets, first);
  }
}
