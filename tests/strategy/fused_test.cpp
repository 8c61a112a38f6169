// One kernel by pairs of blocks: on any host what is launched and refused, on the device every
// length, gate and place, and parts that are cut between pairs.
#include "strategy/fused.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "abi/fused.h"
#include "plan/choose.hpp"
#include "plan/plan.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "support/new_kernels.hpp"
#include "support/pool_sweep.hpp"
#include "support/rig.hpp"
#include "support/scratch.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;
using strategy::fused;

namespace {

constexpr int kPairs = 66;  // an H200's

Result<compose::Recipe> compose_with(const Problem& problem, int groups = 3) {
  return fused.compose(
      problem, h200(),
      tunable::values_of(abi::fused::Tuning{.groups = groups}, abi::fused::tunables));
}

std::string chosen(const std::string& words) {
  const auto choice = plan::choose(problem_in_words(words), h200(), {});
  REQUIRE(choice);
  return choice->recipe.strategy;
}

// The bug: with as many slots as a group makes chunks in between (two groups, or K = 64) the group
// waited for a chunk that had been taken two rounds before, by a parity that then never came.
std::vector<Variant> variants() { return {{"fused", ""}, {"fused", "groups=2"}}; }

// By default teams, but where checkpoints of bf16 states come.
std::vector<Variant> all_groups() {
  return {{"fused", ""}, {"fused", "groups=2"}, {"fused", "groups=3"}};
}
std::vector<Variant> each_grouping() {
  return {{"fused", "groups=2"}, {"fused", "groups=3"}, {"fused", "groups=4"}};
}

// One chunk and its edges, as many as the groups of a pair and more, sequences of none or one.  The
// bug: groups that never have a chunk loaded the gate's constants of a head that nobody had
// written.
std::vector<Trial> lengths() {
  std::vector<Trial> out;
  for (const char* size : {"K=128 V=128 ", "K=64 V=128 ", "K=128 V=256 "})
    for (const char* gate : {"g=bf16 ", "g=f32 "}) {
      const std::string words = std::string(size) + gate;
      for (const std::int64_t T : {0, 1, 31, 32, 33, 191, 192, 193, 255, 256, 257, 700})
        out.push_back(trial(words, {T}));
      out.push_back(trial(words, {33, 33, 33}));
      out.push_back(trial(words + "H=1 HV=3", {130, 130}));
      out.push_back(trial(words + "varlen=1", {257, 0, 3, 40, 700}));
      out.push_back(trial(words + "varlen=1 H=2 HV=4 cu_seqlens=i32", {0, 1, 0, 1, 64}));
      out.push_back(trial(words + "varlen=1 h0=0 ht=0", {1, 300, 33}));
      out.push_back(trial(words + "layout=key_first state=bf16", {150}));
    }
  return out;
}

// More parts than pairs, and not a multiple: those of dense runs and of packs of few sequences are
// cut, 1 to 41 chunks each; of packs with one that is longer than a line, and of many, a pair has
// several.
std::vector<Trial> many_parts() {
  std::vector<Trial> out;
  for (const std::int64_t T : {1, 33, 64, 200, 1300})
    out.push_back(trial("K=128 V=128 H=1 HV=5", std::vector<std::int64_t>(14, T)));
  out.push_back(trial("K=128 V=128 H=67 HV=67", {500}));
  out.push_back(trial("K=128 V=256 H=7 HV=7", std::vector<std::int64_t>(5, 300)));
  out.push_back(trial("K=64 V=128 H=1 HV=8 h0=0", std::vector<std::int64_t>(17, 100)));
  out.push_back(trial("K=128 V=128 H=1 HV=8 ht=0", std::vector<std::int64_t>(17, 100)));
  out.push_back(trial("K=128 V=128 H=11 HV=11 state=bf16", std::vector<std::int64_t>(9, 260)));
  for (Trial& each : out)
    each.in_place_state = each.problem.initial_state && each.problem.final_state;
  for (const char* words :
       {"K=128 V=128 HV=8 varlen=1", "K=64 V=128 H=1 HV=8 varlen=1 cu_seqlens=i32",
        "K=128 V=256 HV=8 varlen=1 h0=0"}) {
    out.push_back(trial(words, {300, 0, 33, 700, 1, 64, 257, 320, 0, 160, 31, 0, 448, 90}));
    out.push_back(trial(words, {0, 0, 200, 200, 200, 200, 200, 200, 200, 200, 200, 0}));
    out.push_back(trial(words, {40, 3000, 0, 40, 40, 40, 40, 40, 40}));  // one past a line
    out.push_back(trial(words, std::vector<std::int64_t>(32, 33)));
    out.push_back(trial(words, std::vector<std::int64_t>(20, 0)));
    out.back().tail = 40;
  }
  out.push_back(trial("K=128 V=128 HV=4 varlen=1 T=20000 N=24", {700, 0, 3000}));
  std::vector<std::int64_t> uneven;
  for (int n = 0; n < 60; ++n) uneven.push_back(n % 5 == 0 ? 0 : n % 7 == 0 ? 900 : 3 * n + 1);
  out.push_back(trial("K=128 V=128 HV=4 varlen=1", uneven));
  out.push_back(trial("K=64 V=128 HV=4 varlen=1", uneven));
  return out;
}

// Packs in which a pair has several pieces, not cut: of 16 chunks, after which a team reads what
// the walk has noted of the next one, and of one more and one fewer; before pieces of as many, of
// fewer than the teams, of none, and behind the line's end.
std::vector<Trial> noted_pieces() {
  std::vector<Trial> out;
  for (const char* words : {"K=128 V=128 H=33 HV=33 varlen=1", "K=64 V=128 H=33 HV=33 varlen=1"}) {
    out.push_back(trial(words, {300, 511, 33, 512, 640, 0, 700, 600, 1, 20, 520, 545}));
    out.push_back(trial(words, {512, 544, 40, 0, 513, 600}));
  }
  out.push_back(
      trial("K=128 V=256 H=11 HV=11 varlen=1 h0=0", {512, 512, 33, 3, 40, 512, 513, 520, 530}));
  return out;
}

// Groups of a pair on different ways to build scores, too.
std::vector<Trial> gates() {
  std::vector<Trial> out;
  for (const reference::InputSpec& spec : gates_of_every_way())
    for (const char* type : {"g=f32 ", "g=bf16 "})
      for (const char* gate : {"gate=log_decay ", "gate=logsigmoid "})
        out.push_back(
            trial(std::string(type) + "beta=f32 K=128 V=128 " + gate, {500, 500, 500}, spec));
  // As models that keep their sigmoids hand them over; of equal keys, each written in full, too.
  for (const char* words : {"gate=log_decay g=f32 ", "gate=bounded ", "gate=softplus K=64 "})
    for (const bool hard : {false, true}) {
      reference::InputSpec spec;
      if (hard) spec.beta = 1;
      if (hard) spec.keys = reference::KeyPattern::identical;
      out.push_back(trial(std::string(words) + "beta=f32 beta_logit=0 beta_most_1=1 V=128 HV=2",
                          {500, 77}, spec));
    }
  return out;
}

// What teams have an anchor for at each half's start, and what wants several: halves that decay by
// a little more than 2^-120, by as much in one token, in a few or in one channel.
std::vector<Trial> anchors() {
  using reference::GatePattern;
  constexpr double closed = -std::numeric_limits<double>::infinity();
  struct Pattern {
    GatePattern gate;
    double value, other;
    int position = 0, period = 64;
  };
  constexpr Pattern patterns[] = {
      {GatePattern::constant, -4, 0},
      {GatePattern::constant, -4.7, 0},
      {GatePattern::constant, -5.19, 0},
      {GatePattern::constant, -5.3, 0},
      {GatePattern::constant, -20, 0},
      {GatePattern::constant, -83, 0},
      {GatePattern::constant, -84, 0},
      {GatePattern::by_token, -0.01, -90},
      {GatePattern::by_token, -30, -0.2},
      {GatePattern::by_token, -0.01, closed},
      {GatePattern::by_channel, -0.01, -12},
      {GatePattern::by_channel, -7, closed},
      {GatePattern::one_channel, -0.01, -6},
      {GatePattern::one_channel, -6, -0.01},
      {GatePattern::spike, -0.3, -60, 0, 5},
      {GatePattern::spike, -6, -300, 3, 7},
      {GatePattern::spike, -0.01, -90, 15, 16},
      {GatePattern::spike, -0.01, -90, 0, 16},
      {GatePattern::spike, -0.01, closed, 9, 32},
  };
  std::vector<Trial> out;
  for (const char* words :
       {"gate=log_decay ", "gate=log_decay scale=0.001 ", "gate=log_decay g=f16 K=64 ",
        "gate=logsigmoid ", "gate=log_decay g=f32 varlen=1 ", "gate=softplus g=f32 K=64 ",
        "gate=softplus ", "gate=softplus g=f16 K=64 varlen=1 "})
    for (const Pattern& each : patterns) {
      const double sign = std::string_view(words).starts_with("gate=softplus") ? -1 : 1;
      reference::InputSpec spec;
      spec.gate = each.gate;
      spec.gate_value = sign * each.value;
      spec.gate_other = sign * each.other;
      spec.gate_position = each.position;
      spec.gate_period = each.period;
      spec.dt_bias = each.position == 0;
      out.push_back(trial(std::string("V=128 HV=2 ") + words, {300, 77}, spec));
    }
  return out;
}

// What becomes of a gate's parameters that are as large as they can be, and of missing tokens.
std::vector<Trial> open_parameters() {
  std::vector<Trial> out;
  // The bug: a rate beyond 2^100 was held to that, and A_log = 80 of g = -75, which decays by
  // e^-148, to e^-0.003.
  reference::InputSpec steep;
  steep.gate = reference::GatePattern::constant;
  steep.dt_bias = false;
  for (const double A_log : {60.0, 80.0, 85.0})
    for (const double past : {-5.0, 0.5}) {  // e^-148 and e^-0.6 a token
      steep.A_log_value = A_log;
      steep.gate_value = -A_log - past;
      out.push_back(trial("gate=softplus g=f32 V=128 HV=2", {77, 77}, steep));
    }
  for (const double A_log : {-200.0, 3.0, 80.0, 100.0}) {
    reference::InputSpec spec;
    spec.A_log_value = A_log;
    for (const char* words : {"", "varlen=1 ", "g=f16 ", "g=f32 "})
      out.push_back(trial(std::string("gate=softplus V=128 HV=2 ") + words, {77, 77}, spec));
  }
  for (const double bias : {std::numeric_limits<double>::infinity(), 3e38, 200.0, -3e38}) {
    reference::InputSpec spec;
    spec.dt_bias_value = bias;
    for (const char* words : {"", "varlen=1 ", "g=f16 ", "g=f32 "})
      out.push_back(trial(std::string("gate=softplus V=128 HV=2 ") + words, {77, 77}, spec));
  }
  return out;
}

// Gates and scales at the ends of what each warp makes by itself (strategy::makes_slabs), and just
// past them; and what makes such a gate as strong and as weak as can be, in turns, too.
std::vector<Trial> slabs() {
  using reference::GatePattern;
  std::vector<Trial> out;
  for (const char* words : {"", "K=64 ", "g=f16 ", "g=f16 beta=f32 ", "lower_bound=-5.15 ",
                            "lower_bound=-5.16 ", "lower_bound=-0.001 ", "lower_bound=-0.0000001 ",
                            "scale=0.001 ", "scale=1024 ", "scale=1025 ", "scale=-1 "})
    for (const GatePattern gate : {GatePattern::constant, GatePattern::by_token,
                                   GatePattern::by_channel, GatePattern::spike}) {
      reference::InputSpec spec;
      spec.gate = gate;
      spec.gate_value = 500;
      spec.gate_other = -500;
      spec.A_log = gate != GatePattern::by_channel;
      spec.dt_bias = gate != GatePattern::by_token;
      out.push_back(trial(std::string("gate=bounded V=128 HV=2 ") + words, {300, 300}, spec));
      std::swap(spec.gate_value, spec.gate_other);
      out.push_back(trial(std::string("gate=bounded V=128 HV=2 ") + words, {77, 77}, spec));
    }
  // Whose A_log leaves nothing of g: what does not exist must not decay even so.
  reference::InputSpec still;
  still.A_log_value = -200;
  for (const char* words : {"", "varlen=1 ", "g=f16 "})
    out.push_back(trial(std::string("gate=bounded V=128 HV=2 ") + words, {77, 77}, still));
  // The bug: the slope of such an A_log was infinite, and without a dt_bias every decay NaN.
  reference::InputSpec steep;
  steep.A_log_value = 100;
  steep.dt_bias = false;
  out.push_back(trial("gate=bounded V=128 HV=2", {77, 77}, steep));
  // The bug: a dt_bias of infinity met the missing tokens' minus infinity, and the final state was
  // NaN.
  for (const double bias : {std::numeric_limits<double>::infinity(), 3e38, -3e38}) {
    reference::InputSpec far;
    far.dt_bias_value = bias;
    for (const char* words : {"", "varlen=1 ", "g=f16 "})
      out.push_back(trial(std::string("gate=bounded V=128 HV=2 ") + words, {77, 77}, far));
  }
  return out;
}

// Rows that no 16-byte copy can load, NaN past the last sequence, offsets that make no sense.
std::vector<Trial> places() {
  std::vector<Trial> out = in_every_place(trial("K=128 V=128 HV=4 varlen=1", {300, 0, 33, 129}));
  for (const Trial& each :
       in_every_place(trial("K=128 V=128 HV=4 gate=softplus g=f32 varlen=1", {300, 0, 33, 129})))
    out.push_back(each);
  // Without packs the copy engine knows where sequences end.
  for (const char* words : {"K=128 V=128 HV=4", "K=64 V=128", "K=128 V=256 g=f32",
                            "K=128 V=128 HV=4 gate=log_decay g=f32"}) {
    Trial dense = trial(words, {300, 300});
    for (const Layout layout :
         {Layout::contiguous, Layout::heads_first, Layout::sliced, Layout::gapped}) {
      dense.layout = layout;
      out.push_back(dense);
    }
    dense.layout = Layout::contiguous;
    dense.misaligned_o = 1;  // v comes by the engine's help only where o leaves by it
    out.push_back(dense);
  }
  Trial odd = trial("K=64 V=128 g=f32", {260});
  odd.misaligned_o = 1;
  out.push_back(odd);
  return out;
}

// The seventh sequence is padding: its chunks are made, and nothing of it is written but zeros.
std::vector<PoolTrial> pools() {
  std::vector<PoolTrial> out;
  for (const char* words : {"varlen=1 K=128 V=128", "varlen=1 K=64 V=128 h0=0 zero_padding=1",
                            "varlen=1 K=128 V=128 zero_padding=1 state=bf16"}) {
    PoolTrial one;
    one.trial = trial(std::string("pool=1 ") + words,
                      {33, 0, 100, 1, 64, 257, 300, 5, 16, 31, 32, 48, 40, 90});
    SlotsSpec spec;
    spec.sequences = static_cast<int>(one.trial.lengths.size());
    spec.prefixes = one.trial.problem.initial_state;
    one.slots = make_slots(spec);
    out.push_back(one);
  }
  // Dense, 70 parts: padding is cut, too.
  PoolTrial cut;
  cut.trial = trial("pool=1 K=128 V=128 H=1 HV=5", std::vector<std::int64_t>(14, 200));
  cut.slots = make_slots({.sequences = 14});
  out.push_back(cut);
  return out;
}

// None to 15 of a sequence, the last ones without a column, lengths that end with one and a token
// before; of dense runs, and of the last two packs, in parts that are cut.
std::vector<PoolTrial> checkpoints() {
  std::vector<PoolTrial> out;
  // Elements between slots.  By 5 no state is aligned to more than its elements, which no copy
  // engine takes.
  constexpr int kGaps[] = {0, 5, 8};
  const auto add = [&](const std::string& words, const std::vector<std::int64_t>& lengths) {
    PoolTrial one;
    one.trial = trial("pool=1 " + words, lengths);
    one.slots = make_slots({.sequences = static_cast<int>(lengths.size()),
                            .checkpoint_columns = 12,
                            .prefixes = one.trial.problem.initial_state,
                            .seed = out.size()});
    one.gap = kGaps[out.size() % std::size(kGaps)];
    out.push_back(one);
  };
  for (const char* words :
       {"K=128 V=128 ", "K=128 V=256 ", "K=128 V=256 layout=key_first ", "K=128 V=128 state=bf16 ",
        "K=64 V=128 ", "K=64 V=128 state=bf16 slots=i64 "})
    for (const char* every : {"checkpoint=64 ", "checkpoint=96 ", "checkpoint=192 "}) {
      const std::string all = std::string(words) + every;
      add(all + "varlen=1", {1000, 1, 64, 300, 0, 31, 320, 33, 191, 192, 193, 640, 96});
      add(all + "H=1 HV=5", std::vector<std::int64_t>(14, 333));
    }
  add("K=128 V=128 HV=8 varlen=1 checkpoint=64",
      {300, 0, 33, 700, 1, 64, 257, 320, 0, 160, 31, 0, 448, 90});
  add("K=128 V=128 HV=8 varlen=1 checkpoint=64 h0=0",
      {0, 0, 200, 200, 200, 200, 200, 200, 200, 200, 200, 0});
  return out;
}

}  // namespace

TEST_CASE("fused launches a pair of blocks a part, no more than the device has", "[strategy]") {
  const auto blocks = [](const char* words) {
    const Problem problem = problem_in_words(words);
    const auto recipe = compose_with(problem);
    INFO(words << ": " << recipe.status().message());
    REQUIRE(recipe);
    REQUIRE(recipe->stages.size() == 1);
    CHECK(recipe->stages[0].cluster == 2);
    CHECK(recipe->stages[0].shared_bytes <= h200().shared_per_block);
    Forward forward{.tokens = problem.max_tokens, .sequences = problem.max_sequences};
    problem::fill_strides(problem, forward);
    compose::Launch launch;
    recipe->stages[0].bind({forward, nullptr}, launch);
    return launch.grid[0];
  };
  CHECK(blocks("T=8192 H=64") == 128);
  CHECK(blocks("T=8192 H=16 V=256") == 64);
  CHECK(blocks("T=8192 H=64 N=8") == 2 * kPairs);
  CHECK(blocks("T=8192 H=1 N=3 varlen=1") == 6);
  CHECK(blocks("T=1 H=1") == 2);
}

TEST_CASE("fused has its rows copied by the engine where the layouts allow it", "[strategy]") {
  const auto launch_of = [](const char* words, void (*change)(Forward&), int groups = 3) {
    const Problem problem = problem_in_words(words);
    const auto recipe = compose_with(problem, groups);
    REQUIRE(recipe);
    Forward forward{.tokens = problem.max_tokens, .sequences = problem.max_sequences};
    problem::fill_strides(problem, forward);
    change(forward);
    compose::Launch launch;
    recipe->stages[0].bind({forward, nullptr}, launch);
    return launch;
  };
  const auto args_of = [](const compose::Launch& launch) {
    abi::fused::Args args;
    REQUIRE(launch.args_bytes == sizeof args);
    std::memcpy(&args, launch.args, sizeof args);
    return args;
  };
  const auto places = [](const compose::Launch& launch) {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < launch.map_count; ++i) out.push_back(launch.maps[i].at);
    return out;
  };
  using abi::fused::Args;
  const std::vector<std::size_t> values = {offsetof(Args, v), offsetof(Args, o)};
  const std::vector<std::size_t> raw = {offsetof(Args, raw.q), offsetof(Args, raw.k),
                                        offsetof(Args, raw.g)};
  const auto nothing = [](Forward&) {};

  const compose::Launch all = launch_of("T=600 N=2 H=2 HV=4 V=256", nothing);
  CHECK(args_of(all).maps);
  CHECK(args_of(all).raw.present);
  auto both = values;
  both.insert(both.end(), raw.begin(), raw.end());
  CHECK(places(all) == both);
  CHECK(all.maps[0].tensor.sizes == std::array<std::uint64_t, 5>{64, 300, 4, 4, 2});
  CHECK(all.maps[0].tensor.box == std::array<std::uint32_t, 5>{64, 32, 1, 1, 1});
  CHECK(all.maps[2].tensor.sizes == std::array<std::uint64_t, 5>{32, 300, 4, 2, 2});
  CHECK(all.maps[2].tensor.box == std::array<std::uint32_t, 5>{32, 32, 4, 1, 1});
  CHECK(all.maps[4].tensor.sizes == std::array<std::uint64_t, 5>{32, 300, 4, 4, 2});

  const compose::Launch pack = launch_of("T=600 N=3 H=2 K=64 varlen=1", nothing);
  CHECK(pack.maps[0].tensor.sizes == std::array<std::uint64_t, 5>{64, 600, 2, 2, 1});
  CHECK(pack.maps[2].tensor.box == std::array<std::uint32_t, 5>{16, 32, 1, 1, 1});

  const compose::Launch teams = launch_of("T=600 N=2 H=2 HV=4 V=256", nothing, 4);
  CHECK(places(teams) == both);
  CHECK(teams.maps[2].tensor.sizes == std::array<std::uint64_t, 5>{64, 300, 2, 2, 2});
  CHECK(teams.maps[2].tensor.box == std::array<std::uint32_t, 5>{64, 16, 1, 1, 1});
  CHECK(launch_of("T=600 H=2 K=64", nothing, 4).maps[2].tensor.sizes ==
        std::array<std::uint64_t, 5>{64, 600, 1, 2, 1});

  CHECK(places(launch_of("T=600 H=2 g=f32", nothing)) == values);  // no slabs
  const compose::Launch odd_g = launch_of("T=600 H=2", [](Forward& f) { ++f.g_strides.token; });
  CHECK(places(odd_g) == values);
  CHECK_FALSE(args_of(odd_g).raw.present);
  const compose::Launch odd_o = launch_of("T=600 H=2", [](Forward& f) { ++f.o_strides.token; });
  CHECK(places(odd_o) == raw);
  CHECK_FALSE(args_of(odd_o).maps);
}

TEST_CASE("fused wants a state a pair, for parts that are cut, and no more", "[strategy]") {
  for (const char* words : {"T=131072 H=96", "T=1000 H=1", "T=131072 H=96 N=8 varlen=1"}) {
    const auto recipe = compose_with(problem_in_words(words));
    REQUIRE(recipe);
    constexpr std::size_t kState = 128 * 128 * 4;
    CHECK(recipe->workspace_bytes >= kPairs * kState);
    CHECK(recipe->workspace_bytes <= kPairs * kState + 8192);
  }
}

TEST_CASE("fused refuses what it does not serve, naming it", "[strategy]") {
  const auto refused = [](const Status& status, const char* part) {
    INFO(status.message());
    CHECK(status.code() == Code::unsupported);
    CHECK_THAT(status.message(), contains("strategy fused: "));
    CHECK_THAT(status.message(), contains(part));
  };
  for (const char* words : {"H=64 qkv=f16", "H=64 K=96", "H=64 V=64", "H=64 V=192", "H=64 l2norm=0",
                            "H=64 neg_eigval=1", "H=64 beta_logit=0", "H=64 wy=32"}) {
    INFO(words);
    refused(fused.applicable(problem_in_words(words), h200()), "chunk_wgmma serves more");
  }
  refused(fused.applicable(problem_in_words("H=64 pool=1 ht=1 checkpoint=80"), h200()),
          "checkpoint_tokens=80 is not a multiple of chunk=32");
  refused(fused.applicable(problem_in_words("H=64"), *device::parse("sm_89")),
          "compute capability 8.9; wgmma is 9.0's; chunk serves more");
  // The bug: the remedy was a strategy that 8.9 has not, either.
  refused(fused.applicable(problem_in_words("H=64"), *device::parse("sm_89")),
          "; chunk serves more");
  refused(compose_with(problem_in_words("T=65536 H=32768 N=65536 varlen=1")).status(),
          "2147483648 parts");
  refused(compose_with(problem_in_words("T=2147483648 H=1")).status(), "max_tokens=2147483648");
  refused(compose_with(problem_in_words("H=64 lower_bound=-5.16"), 4).status(),
          "groups=4 are teams: lower_bound is -5.16");
  CHECK(compose_with(problem_in_words("T=2147483584 H=1")));
  CHECK(fused.applicable(problem_in_words("H=64 beta_logit=0 beta_most_1=1"), h200()));
  CHECK(fused.applicable(problem_in_words("H=64 pool=1 ht=1"), h200()));
  CHECK(fused.applicable(problem_in_words("H=64 pool=1 ht=1 checkpoint=96"), h200()));
}

TEST_CASE("fused is for parts that fill the device", "[strategy]") {
  for (const char* words : {"T=8192 H=64", "T=8192 H=96", "T=8192 H=16 HV=64", "T=16384 H=32 N=4",
                            "T=16384 H=16 N=8", "T=8192 H=64 N=8", "T=8192 H=64 N=6 varlen=1",
                            "T=8192 H=96 N=6 varlen=1", "T=2048 H=16 N=32", "T=8192 H=12 N=4"}) {
    INFO(words);
    CHECK(chosen(std::string(words) + " h0=1 ht=1") == "fused");
  }
  for (const char* words : {"T=8192 H=32", "T=8192 H=24", "T=8192 H=16", "T=131072 H=32",
                            "T=2048 H=12", "T=256 H=32", "T=64 H=32 N=64"}) {
    INFO(words);
    CHECK(chosen(std::string(words) + " h0=1 ht=1") != "fused");
  }
}

TEST_CASE("fused makes slabs where the gate keeps decays in range", "[strategy]") {
  const auto by_slabs = [](const char* words) {
    const auto recipe = compose_with(problem_in_words(words));
    INFO(words << ": " << recipe.status().message());
    REQUIRE(recipe);
    return recipe->stages[0].prelude.find(".slabs = 1") != std::string::npos;
  };
  for (const char* words : {"H=64", "H=64 K=64 g=f16", "H=64 lower_bound=-5.15",
                            "H=64 lower_bound=-0.001 scale=1024", "H=64 scale=0.001"})
    CHECK(by_slabs(words));
  for (const char* words :
       {"H=64 g=f32", "H=64 gate=softplus", "H=64 gate=log_decay", "H=64 lower_bound=-5.16",
        "H=64 lower_bound=-0.0000001", "H=64 scale=1025", "H=64 scale=0.0009", "H=64 scale=-1"})
    CHECK_FALSE(by_slabs(words));
}

TEST_CASE("fused leaves many checkpoints, without teams by two groups where they are dense",
          "[strategy]") {
  const auto tuning = [](const std::string& words) {
    const tunable::Values values = fused.defaults(problem_in_words(words), h200());
    return tunable::to_text({values.front()});
  };
  const std::string pool = "T=8192 pool=1 h0=1 ht=1 ";
  for (const char* every : {"", "checkpoint=64", "checkpoint=256", "checkpoint=1024"})
    CHECK(tuning(pool + "H=64 " + every) == "groups=4");
  CHECK(tuning(pool + "H=64 state=bf16") == "groups=4");
  CHECK(tuning(pool + "H=64 state=bf16 checkpoint=64") == "groups=2");
  CHECK(tuning(pool + "H=64 state=bf16 checkpoint=256") == "groups=4");
  CHECK(tuning(pool + "H=64 state=bf16 checkpoint=256 K=64") == "groups=2");
  for (const char* gate :
       {"g=f32", "gate=softplus", "gate=logsigmoid g=f16", "gate=log_decay g=f32"})
    CHECK(tuning(pool + "H=64 " + gate) == "groups=4");
  CHECK(tuning(pool + "H=64 gate=softplus state=bf16 checkpoint=64") == "groups=2");
  CHECK(tuning(pool + "H=64 gate=softplus state=bf16 checkpoint=256") == "groups=4");
  CHECK(tuning(pool + "H=64 gate=softplus g=f32 state=bf16 checkpoint=256") == "groups=3");
  CHECK(tuning(pool + "H=64 lower_bound=-6") == "groups=3");
  CHECK(tuning(pool + "H=64 lower_bound=-6 checkpoint=64") == "groups=2");
  CHECK(tuning(pool + "H=64 lower_bound=-6 checkpoint=128") == "groups=2");
  CHECK(tuning(pool + "H=64 lower_bound=-6 checkpoint=256") == "groups=3");
  for (const char* words : {"H=64", "H=96", "H=64 N=8", "H=16 HV=64"})
    for (const char* every : {" checkpoint=64", " checkpoint=512"}) {
      INFO(words << every);
      CHECK(chosen(pool + words + every) == "fused");
    }
}

TEST_CASE("two groups leave a checkpoint room in shared memory", "[strategy]") {
  const auto kept = [](const std::string& words, int groups) {
    const abi::Shape shape = problem::shape_of(problem_in_words("pool=1 ht=1 " + words));
    const abi::fused::Layout layout = abi::fused::layout(shape, groups);
    CHECK(layout.bytes <= static_cast<int>(h200().shared_per_block));
    CHECK(layout.slots >= 2);
    CHECK(layout.kept % abi::state_box::align == 0);
    if (layout.kept != 0) CHECK(layout.notes == layout.kept + 4 * abi::state_box::bytes(shape));
    return layout.kept != 0;
  };
  const std::string every = "H=64 checkpoint=64 ";
  CHECK(kept(every, 2));
  CHECK(kept(every + "state=bf16", 2));
  CHECK(kept(every + "K=64", 2));
  CHECK(kept(every + "K=64", 3));
  CHECK(kept(every + "K=64", 4));
  CHECK_FALSE(kept(every, 3));
  CHECK_FALSE(kept(every, 4));
  CHECK_FALSE(kept("H=64", 2));
  CHECK_FALSE(kept(every + "layout=key_first", 2));
}

// The kernel takes all addresses from the layout, so what overlaps there overlaps on the device.
TEST_CASE("nothing overlaps in a block's memory", "[strategy]") {
  struct Area {
    int from, bytes;
  };
  for (const char* words :
       {"K=128", "K=64", "K=128 checkpoint=64", "K=64 checkpoint=64 state=bf16"})
    for (const int groups : {2, 3, 4}) {
      const abi::Shape shape =
          problem::shape_of(problem_in_words(std::string("H=64 V=128 pool=1 ht=1 ") + words));
      const abi::fused::Layout at = abi::fused::layout(shape, groups);
      INFO(words << ", groups=" << groups);
      CHECK(abi::fused::fits(shape, groups));
      const int image = abi::chunk::image(shape, abi::factors::chunk).bytes;
      const int barriers = abi::fused::barrier_bytes(abi::fused::by_teams(groups));
      std::vector<Area> areas;
      for (int group = 0; group < groups; ++group) {
        // But for what the barriers have of the last one, where teams have none.
        const bool shares = group == groups - 1 && !abi::fused::by_teams(groups);
        areas.push_back({group * at.group, at.group - (shares ? barriers : 0)});
      }
      for (int slot = 0; slot < at.slots; ++slot)
        areas.push_back({at.arriving + slot * at.slot, image});
      areas.push_back({at.arriving + image, abi::fused::tasks_bytes(shape)});
      areas.push_back({at.barriers, barriers});
      const int rows = abi::factors::chunk * abi::fused::columns * 2;
      areas.push_back({at.steps, abi::fused::steps(at, groups) * abi::fused::step_bytes});
      areas.push_back({at.values, (abi::fused::by_teams(groups) ? at.places : 2) * rows});
      if (at.kept != 0) areas.push_back({at.kept, 4 * abi::state_box::bytes(shape)});
      if (abi::fused::by_teams(groups))
        areas.push_back({at.notes, groups * abi::fused::notes_bytes});
      std::sort(areas.begin(), areas.end(), [](Area a, Area b) { return a.from < b.from; });
      int end = 0;
      for (const Area& area : areas) {
        CHECK(area.from >= end);
        end = area.from + area.bytes;
      }
      CHECK(end <= at.bytes);
      CHECK(at.bytes <= static_cast<int>(h200().shared_per_block));
      // Tiles are where the copy engine's and wgmma's patterns begin.
      for (const int aligned : {at.group, at.arriving, at.slot, at.values}) {
        CHECK(aligned % 1024 == 0);
      }
      CHECK(at.steps % abi::fused::step_bytes == 0);
    }
}

TEST_CASE("fused composes where it serves", "[strategy]") {
  for (const auto& trials : {lengths(), many_parts(), gates(), anchors(), open_parameters(),
                             slabs(), places(), plain(pools()), plain(checkpoints())}) {
    const Tally tally = compose_only("fused", trials, "sm_90a", variants());
    CHECK(tally.failed == 0);
    CHECK(tally.refused == 0);
  }
}

// The bug: strides of q, k and g, held from chunk to chunk, were 44 bytes of spills in packs, which
// took 2% to 4% longer for it.
TEST_CASE("fused does not spill", "[strategy][compile]") {
  const Scratch cache;
  NewKernels kernels(cache.path());
  std::vector<Wanted> wanted;
  const auto want = [&](const std::string& gate, const std::string& tuning) {
    const auto add = [&](const std::string& words) {
      wanted.push_back(
          {problem_in_words("T=8192 H=64 " + gate + words), "sm_90a", "fused", tuning});
    };
    for (const char* words :
         {"varlen=1", "layout=key_first", "state=bf16 varlen=1 slots=i64", "V=256"})
      add(std::string("pool=1 h0=1 ht=1 checkpoint=64 ") + words);
    for (const char* words : {"varlen=1", "N=8", "K=64", "beta=f32", "state=bf16 varlen=1"})
      add(words);
  };
  // By default teams, but two groups for many checkpoints of bf16 states; three where teams do not
  // serve.  Of g in f16, which only arithmetic tells from bf16, what is new to it.
  want("", "");
  want("", "groups=4");
  want("", "groups=2");
  want("g=f32 ", "groups=2");
  want("g=f32 ", "groups=3");
  want("g=f16 ", "");
  want("g=f16 ", "groups=4");
  for (const char* gate : {"gate=softplus ", "gate=softplus g=f32 ", "gate=log_decay g=f32 "})
    want(gate, "");
  const std::vector<NewOnes> all = kernels.make(wanted);
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(problem::to_text(wanted[i].problem)
         << ": " << all[i].tuning << ": " << all[i].status.message());
    REQUIRE(all[i].status);
    for (const program::Kernel& kernel : all[i].kernels) CHECK(kernel.resources.spill_bytes == 0);
  }
}

TEST_CASE("fused, sequences of every length", "[gpu][fused]") {
  check_on_device("fused lengths", lengths(), all_groups());
}

TEST_CASE("fused, parts cut between pairs", "[gpu][fused]") {
  check_on_device("fused parts", many_parts(), all_groups());
}

TEST_CASE("fused, pieces that the walk has noted", "[gpu][fused]") {
  check_on_device("fused noted pieces", noted_pieces(),
                  {{"fused", "groups=4"}, {"fused", "groups=4 short_tokens=8"}});
}

TEST_CASE("fused under every gate", "[gpu][fused]") {
  check_on_device("fused gates", gates(), all_groups());
}

TEST_CASE("fused, halves that want several anchors", "[gpu][fused]") {
  check_on_device("fused anchors", anchors(), {{"fused", "groups=3"}, {"fused", "groups=4"}});
}

TEST_CASE("fused, a gate's parameters at their ends", "[gpu][fused]") {
  check_on_device("fused open parameters", open_parameters(),
                  {{"fused", "groups=3"}, {"fused", "groups=4"}});
}

TEST_CASE("fused by slabs", "[gpu][fused]") {
  check_on_device("fused slabs", slabs(), all_groups());
}

TEST_CASE("fused in odd places", "[gpu][fused]") {
  check_on_device("fused places", places(), all_groups());
}

TEST_CASE("fused on state pools", "[gpu][fused]") {
  check_pools_on_device("fused pools", pools(), variants());
}

TEST_CASE("fused leaves checkpoints", "[gpu][fused]") {
  check_pools_on_device("fused checkpoints", checkpoints(), each_grouping());
}

// A run finds its flags as the one before has left them, or as the plan of another left the memory.
TEST_CASE("fused cuts the same in every run of a plan", "[gpu][fused]") {
  if (!on_device()) return;
  const Gpu gpu;
  const Trial one = complete(trial("K=128 V=128 H=1 HV=5", std::vector<std::int64_t>(14, 400)));
  Truth truth(one);
  const Plan plan = plan_of(one.problem, "fused");
  Rig rig(gpu, one, truth.tensors());
  std::vector<std::byte> bits;
  for (int run = 0; run < 20; ++run) {
    CHECK(rig.run(plan) == "");
    if (run == 0) {
      CHECK(truth.judge(rig.outputs()) == "");
      bits = rig.output_bits();
    }
    CHECK((rig.output_bits() == bits));
  }
  // And in memory that no one touches in between.
  const DeviceMemory workspace(gpu, plan.workspace_bytes());
  for (int run = 0; run < 20; ++run) {
    const Status status =
        plan.run(rig.forward(), workspace.data(), plan.workspace_bytes(), gpu.stream());
    INFO(status.message());
    REQUIRE(status);
  }
  must(gpu.driver().StreamSynchronize(gpu.stream()), "cuStreamSynchronize");
  CHECK((rig.output_bits() == bits));
}
