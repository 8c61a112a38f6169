// How sequences are cut: on any host what the recipe launches, on the device that results do not
// depend on it.
#include "strategy/segments.hpp"

#include <string>
#include <vector>

#include "abi/segments.h"
#include "plan/choose.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "support/device_memory.hpp"
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

// The blocks of walk and correct for one run.
std::vector<unsigned> blocks_of(const Problem& problem, const Tuning& tuning, Forward forward) {
  const auto recipe = compose_with(problem, tuning);
  INFO(recipe.status().message());
  REQUIRE(recipe);
  REQUIRE(recipe->stages.size() == 3);
  problem::fill_strides(problem, forward);
  std::vector<unsigned> blocks;
  for (std::size_t stage = 1; stage < 3; ++stage) {
    compose::Launch launch;
    recipe->stages[stage].bind({forward, nullptr}, launch);
    blocks.push_back(launch.grid[0] * launch.grid[1]);
  }
  return blocks;
}

std::string chosen(const std::string& words) {
  const auto choice = plan::choose(problem_in_words(words), h200(), {});
  REQUIRE(choice);
  return choice->recipe.strategy;
}

// Cuts of 32 to 64 tokens, and two of 128, in which T decays past every chunk, or one half of it.
// The bugs: f16's scale of what was left of T, times Ak's, was infinite, and T NaN where strong
// gates had made it 2^-112 or less; and what was nothing of one half was not written beside one
// that was alive.
std::vector<Variant> cuts() {
  return {{"segments", "chunk=32 segment=1 warpgroups=2"},
          {"segments", "chunk=16 segment=2 warpgroups=2 load_stages=1"},
          {"segments", "chunk=16 segment=8 warpgroups=1 load_stages=2"},
          {"segments", "chunk=64 segment=1 warpgroups=1 load_stages=2"},
          {"segments", "chunk=32 segment=4 warpgroups=2 load_stages=6"}};
}

constexpr const char* kServed[] = {"bf16", "f16"};

std::vector<Trial> lengths() {
  std::vector<Trial> out;
  for (const char* type : kServed)
    for (const char* size : {"K=64 V=64 ", "K=128 V=128 ", "K=100 V=60 ", "K=128 V=200 "}) {
      for (const std::int64_t T : {0, 1, 16, 17, 32, 33, 64, 65, 96, 97, 129, 400})
        out.push_back(trial(all_types(type) + size, {T}));
      out.push_back(trial(all_types(type) + size, {130, 130, 130}));
      out.push_back(trial(all_types(type) + size + "HV=4 varlen=1", {0, 257, 3, 0, 64, 129, 0}));
      out.push_back(trial(all_types(type) + size + "varlen=1 h0=0", {1, 300, 33}));
      out.push_back(
          trial(all_types(type) + size + "varlen=1 layout=key_first state=bf16", {95, 0, 200}));
    }
  return out;
}

// A transition that is never forgotten, forgotten at once, and in one channel alone.
std::vector<Trial> gates() {
  std::vector<Trial> out;
  const auto add = [&](const char* type, GatePattern gate, double value, double other) {
    InputSpec spec;
    spec.gate = gate;
    spec.gate_value = value;
    spec.gate_other = other;
    out.push_back(trial(qkv(type) + "g=f32 beta=f32 gate=log_decay K=128 V=64", {300}, spec));
  };
  for (const char* type : kServed) {
    for (const double value : {0.0, -1e-4, -0.01, -0.1, -1.0, -5.0, -50.0, -500.0})
      add(type, GatePattern::constant, value, 0);
    for (const double strong : {-5.0, -500.0})
      for (const double weak : {0.0, -1e-4, -1.0})
        for (const GatePattern gate :
             {GatePattern::by_token, GatePattern::by_channel, GatePattern::one_channel})
          add(type, gate, strong, weak);
  }
  return out;
}

// Keys that the inverse finds hard, and beta past 1: Ak comes in two terms.
std::vector<Trial> keys() {
  std::vector<Trial> out;
  for (const char* type : kServed)
    for (const reference::KeyPattern pattern :
         {reference::KeyPattern::random, reference::KeyPattern::identical,
          reference::KeyPattern::correlated, reference::KeyPattern::zero})
      for (const double beta : {0.0, 0.5, 1.0, 1.9}) {
        InputSpec spec;
        spec.keys = pattern;
        spec.beta = beta;
        spec.gate = GatePattern::weak;
        out.push_back(trial(qkv(type) + "g=f32 beta=f32 beta_logit=0", {200}, spec));
      }
  return out;
}

// By 132 multiprocessors fewer parts than segments to correct, as many, one more and several: who
// has the last segment's chunks, and who leaves the final state, if anybody does.
std::vector<Trial> parts() {
  std::vector<Trial> out;
  for (const char* heads : {"H=4 HV=4 ", "H=8 HV=8 ", "H=9 HV=9 ", "H=16 HV=16 ", "H=64 HV=64 "})
    for (const char* states : {"h0=1 ht=1 ", "h0=1 ht=0 "})
      for (const GatePattern gate : {GatePattern::weak, GatePattern::mixed, GatePattern::strong}) {
        InputSpec spec;
        spec.gate = gate;
        out.push_back(trial(qkv("bf16") + heads + states + "K=128 V=128", {256}, spec));
        out.push_back(trial(qkv("bf16") + heads + states + "varlen=1", {20, 230, 6}, spec));
      }
  return out;
}

// A large state that is forgotten beside small values, and the other way round.
std::vector<Trial> magnitudes() {
  std::vector<Trial> out;
  for (const char* type : kServed)
    for (const double v : {1e-3, 1.0, 1e3})
      for (const double state : {1e-3, 1.0, 1e3})
        for (const GatePattern gate : {GatePattern::weak, GatePattern::strong}) {
          InputSpec spec;
          spec.v_scale = v;
          spec.state_scale = state;
          spec.gate = gate;
          out.push_back(trial(qkv(type) + "K=128", {200}, spec));
        }
  return out;
}

// The final state over the initial one, strides, and what nobody may read.
std::vector<Trial> places() {
  std::vector<Trial> out;
  for (const char* type : kServed) {
    Trial one = trial(all_types(type) + "K=128 V=128 HV=4 varlen=1", {300, 0, 33, 129});
    one.in_place_state = true;
    out.push_back(one);
    one.tail = 70;
    one.layout = Layout::gapped;
    one.misaligned = 1;
    out.push_back(one);
    one.cu_seqlens = {0, 300, 100, 120, 5000};
    out.push_back(one);
    one.cu_seqlens = {450, 200, 0, 300, 462};
    out.push_back(one);
  }
  return out;
}

}  // namespace

TEST_CASE("groups that prepare short runs walk, but past no long list of sequences", "[strategy]") {
  const auto prepare = [](const char* words, int segment) {
    const auto recipe = compose_with(problem_in_words(words), {.segment = segment});
    REQUIRE(recipe);
    return recipe->stages[0].file;
  };
  CHECK(prepare("T=8192 H=8", 64) == "chunk/prepare_walking.cu");
  CHECK(prepare("T=65536 H=8", 128) == "chunk/prepare_group.cu");
  CHECK(prepare("T=8192 H=8 N=8 varlen=1", 64) == "chunk/prepare_walking.cu");
  CHECK(prepare("T=8192 H=8 N=9 varlen=1", 64) == "chunk/prepare_group.cu");
  CHECK(prepare("T=8192 H=8 N=9", 64) == "chunk/prepare_walking.cu");
}

TEST_CASE("segments launches a block a segment slot, head and unit of columns", "[strategy]") {
  const Problem dense = problem_in_words("T=8192 H=8 h0=1 ht=1");
  const Tuning tuning{.segment = 16};
  // 8192 / 512 + 1 slots; V and K columns in two halves; and 132 / 16 parts of what is corrected.
  using Blocks = std::vector<unsigned>;
  CHECK(blocks_of(dense, tuning, {.tokens = 8192}) == Blocks{17 * 8 * 2, 8 * 2 * 8});
  CHECK(blocks_of(dense, {.segment = 16, .warpgroups = 1}, {.tokens = 8192}) ==
        Blocks{17 * 8 * 4, 8 * 2 * 8});

  // What is not cut needs no correction, and no tokens only the copy of the state.
  CHECK(blocks_of(dense, tuning, {.tokens = 512}) == Blocks{2 * 8 * 2, 0});
  CHECK(blocks_of(dense, tuning, {.tokens = 0}) == Blocks{8 * 2, 0});
  const Problem batch = problem_in_words("T=8192 N=16 H=8");
  CHECK(blocks_of(batch, tuning, {.tokens = 8192, .sequences = 16}) == Blocks{32 * 8 * 2, 0});
  // Where lengths are the device's, any may be the long one.
  const Problem pack = problem_in_words("T=8192 N=16 H=8 varlen=1");
  CHECK(blocks_of(pack, tuning, {.tokens = 8192, .sequences = 16}) ==
        Blocks{32 * 8 * 2, 16 * 8 * 2});
  // As many blocks as V or K columns want, and no more parts than there are chunks.
  const Problem one = problem_in_words("T=256 H=1 V=64");
  CHECK(blocks_of(one, {.segment = 4}, {.tokens = 256}) == Blocks{3 * 2, 9});
  CHECK(blocks_of(one, {.segment = 4, .warpgroups = 1}, {.tokens = 256}) == Blocks{3 * 3, 9});
}

TEST_CASE("segments' workspace grows by the tokens of a segment alone", "[strategy]") {
  const auto bytes = [](const char* words) {
    const auto recipe = compose_with(problem_in_words(words), {.segment = 16});
    REQUIRE(recipe);
    return static_cast<double>(recipe->workspace_bytes);
  };
  const double more = (bytes("T=131072 H=4") - bytes("T=65536 H=4")) / 65536 / 4;
  CHECK(more > 1000);
  CHECK(more < 1500);  // bytes a token and head
}

TEST_CASE("segments refuses what it does not serve, naming it", "[strategy]") {
  const auto refused = [](const Status& status, const char* word) {
    INFO(status.message());
    CHECK(status.code() == Code::unsupported);
    CHECK(status.message().find(word) != std::string::npos);
  };
  refused(segments.applicable(problem_in_words("H=4 qkv=f32"), h200()), "qkv_type is f32");
  refused(segments.applicable(problem_in_words("H=4 K=256"), h200()), "key_dim is 256");
  refused(segments.applicable(problem_in_words("H=4"), *device::parse("sm_89")), "capability 8.9");
  // The bug: q~ was rounded to f16 after it had been scaled, 2e-3 of it lost at 1e-4, all at 1e-8.
  CHECK(segments.applicable(problem_in_words("H=4 qkv=f16"), h200()));
  refused(segments.applicable(problem_in_words("H=4 qkv=f16 scale=1e-4"), h200()),
          "scale = 0.0001");
  refused(segments.applicable(problem_in_words("H=4 qkv=f16 scale=100"), h200()), "scale = 100");
  refused(segments.applicable(problem_in_words("H=4 qkv=f16 l2norm=0"), h200()),
          "l2norm_qk = false");
  refused(
      compose_with(problem_in_words("H=4 pool=1 ht=1 checkpoint=1056"), {.segment = 2}).status(),
      "checkpoint_tokens=1056 is not a multiple of a segment's 64 tokens");
  CHECK(segments.applicable(problem_in_words("H=4 qkv=bf16 scale=1e-4"), h200()));
  refused(compose_with(problem_in_words("H=4"),
                       {.chunk = 64, .prepare_threads = 512, .warpgroups = 1, .load_stages = 4})
              .status(),
          "load_stages=4");
  refused(
      compose_with(problem_in_words("H=4"), {.chunk = 64, .prepare_threads = 512, .warpgroups = 2})
          .status(),
      "warpgroups=2");
  refused(compose_with(problem_in_words("T=1073741824 H=64 V=512"), {.segment = 1}).status(),
          "segment=1 make");
}

TEST_CASE("few heads and long sequences are cut, others are not", "[strategy]") {
  // Of runs whose gates do not forget.
  CHECK(chosen("T=131072 H=4") == "by_gates");
  CHECK(chosen("T=65536 H=8") == "by_gates");
  CHECK(chosen("T=131072 H=4 pool=1 h0=1 ht=1") == "segments");
  CHECK(chosen("T=65536 H=8 lower_bound=-6") == "segments");
  CHECK(chosen("T=8192 H=4") == "segments");
  CHECK(chosen("T=8192 H=8") == "segments");
  // The gap: what an engine with four heads a device prefills took 110 us for 60, as no pool was
  // served.
  CHECK(chosen("T=8192 H=4 pool=1 h0=1 ht=1") == "segments");
  CHECK(chosen("T=8192 H=4 pool=1 h0=1 ht=1 checkpoint=1024") == "segments");
  CHECK(chosen("T=8192 H=4 pool=1 h0=1 ht=1 checkpoint=64") == "chunk_wgmma");
  // The bug: a default that could not serve was taken for as fast as segments of 512 tokens.
  for (const char* every : {"80", "400", "1040", "2000"}) {
    CHECK(chosen(std::string("T=8192 H=4 pool=1 h0=1 ht=1 checkpoint=") + every) == "chunk_wgmma");
  }
  // The bug: the model knew of faster chains for chunk_wgmma alone, which took 75 us here for 67.
  CHECK(chosen("T=4096 H=8") == "segments");
  CHECK(chosen("T=8192 H=16") == "chunk_wgmma");
  CHECK(chosen("T=2048 H=12") == "chunk_wgmma");
  CHECK(chosen("T=8192 H=64") != "segments");
  CHECK(chosen("T=8192 H=96") != "segments");
  CHECK(chosen("T=65536 N=256 H=32") != "segments");
  CHECK(chosen("T=256 H=4") != "segments");
  // 20 us under strong gates, but 26 under weak ones, where chunk_wgmma takes 24 under all.
  CHECK(chosen("T=1024 H=4") == "chunk_wgmma");
}

TEST_CASE("cuts compose where segments serves", "[strategy]") {
  for (const auto& trials : {lengths(), parts(), gates(), keys(), magnitudes(), places()}) {
    const Tally tally = compose_only("cuts", trials, "sm_90a", cuts());
    CHECK(tally.failed == 0);
    CHECK(tally.passed > 0);
  }
}

TEST_CASE("cut sequences of every length", "[gpu][segments]") {
  check_on_device("cut lengths", lengths(), cuts());
}

TEST_CASE("cut sequences by every number of parts", "[gpu][segments]") {
  check_on_device("cut parts", parts(), cuts());
}

TEST_CASE("cut sequences under every gate", "[gpu][segments]") {
  check_on_device("cut gates", gates(), cuts());
}

TEST_CASE("cut sequences of hard keys", "[gpu][segments]") {
  check_on_device("cut keys", keys(), cuts());
}

TEST_CASE("cut sequences of every magnitude", "[gpu][segments]") {
  check_on_device("cut magnitudes", magnitudes(), cuts());
}

TEST_CASE("cut sequences in odd places", "[gpu][segments]") {
  check_on_device("cut places", places(), cuts());
}

namespace {

// States in slots: sequences that are padding in the midst of others, prefixes that several begin
// from, sequences of no segment, one and many.
std::vector<PoolTrial> pools() {
  std::vector<PoolTrial> out;
  for (const char* type : kServed) {
    for (const char* words :
         {"K=128 V=128 HV=4 ", "K=64 V=64 zero_padding=1 state=bf16 layout=key_first ",
          "K=100 V=60 slots=i64 ", "K=128 V=200 HV=4 zero_padding=1 ", "K=128 V=128 h0=0 ",
          "K=128 V=64 ht=0 "}) {
      const bool starts = std::string(words).find("h0=0") == std::string::npos;
      for (const std::vector<std::int64_t>& lengths :
           {std::vector<std::int64_t>{64, 0, 300, 17, 129, 400, 33, 1},
            std::vector<std::int64_t>(8, 130)}) {
        const bool dense = lengths[0] == lengths[1];
        PoolTrial one;
        one.trial = trial(
            std::string("pool=1 ") + all_types(type) + words + (dense ? "varlen=0" : "varlen=1"),
            lengths);
        one.slots = make_slots({.sequences = static_cast<int>(lengths.size()),
                                .prefixes = starts && out.size() % 2 == 0,
                                .seed = out.size()});
        one.gap = out.size() % 3 == 1 ? 3 : out.size() % 3 == 2 ? 64 : 0;
        one.row_gap = static_cast<int>(out.size() % 2);
        out.push_back(one);
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("cut sequences from and to pools", "[gpu][segments]") {
  check_pools_on_device("cut pools", pools(), cuts());
}

// Checkpoints at the end of every, every second and every fourth segment, and of sequences.
TEST_CASE("cut sequences leave checkpoints", "[gpu][segments]") {
  for (const int every : {64, 128, 256}) {
    std::vector<PoolTrial> trials;
    for (PoolTrial one : pools()) {
      if (!one.trial.problem.final_state) continue;
      const reference::Slots& slots = one.slots;
      one.trial.problem.checkpoint_tokens = every;
      one.slots = make_slots({.sequences = static_cast<int>(slots.indices.size()),
                              .checkpoint_columns = 256 / every,  // the longest has more
                              .prefixes = !slots.initial_indices.empty(),
                              .seed = trials.size()});
      trials.push_back(one);
    }
    INFO(every);
    check_pools_on_device("cut checkpoints", trials,
                          {{"segments", "chunk=32 segment=2 warpgroups=2"},
                           {"segments", "chunk=16 segment=4 warpgroups=1 load_stages=2"},
                           {"segments", "chunk=64 segment=1 warpgroups=1 load_stages=2"}});
  }
}

TEST_CASE("cut sequences compose for pools", "[strategy]") {
  const std::vector<Trial> trials = plain(pools());
  const Tally tally = compose_only("cut pools", trials, "sm_90a", cuts());
  CHECK(tally.failed == 0);
  CHECK(tally.refused == 0);
  CHECK(tally.passed > 0);
}

// Where T has decayed to nothing, what tokens see of a state that is not finite is 0 times it, and
// not 0.
TEST_CASE("an infinite state stays so past the end of T", "[gpu][segments]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const char* type : kServed) {
    InputSpec spec;
    spec.gate = GatePattern::constant;
    spec.gate_value = -50.0;
    const Trial one = complete(
        trial(qkv(type) + "g=f32 beta=f32 gate=log_decay K=128 V=128 H=1 HV=1", {700}, spec));
    Truth truth(one);
    reference::Tensors tensors = truth.tensors();
    spoil_column(tensors);
    for (const char* tuning : {"segment=4", "segment=8"}) {
      const auto plan = Plan::make(one.problem, {.strategy = "segments", .tuning = tuning});
      INFO(tuning << " | " << to_text(one) << ": " << plan.status().message());
      REQUIRE(plan);
      Rig rig(gpu, one, tensors);
      CHECK(rig.run(*plan) == "");
      check_only_that_is_spoilt(rig.outputs(), 128);
    }
  }
}

TEST_CASE("however many segments, the error stays what it was", "[gpu][segments]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const char* type : kServed)
    for (const GatePattern gate : {GatePattern::weak, GatePattern::mixed, GatePattern::strong}) {
      InputSpec spec;
      spec.gate = gate;
      const Trial one = complete(trial(qkv(type) + "K=128 V=128 H=1 HV=2", {6000}, spec));
      Truth truth(one);
      double uncut = 0;
      for (const char* tuning : {"segment=256", "segment=128", "segment=64", "segment=16",
                                 "segment=16 warpgroups=1", "segment=4", "segment=1"}) {
        const auto plan = Plan::make(one.problem, {.strategy = "segments", .tuning = tuning});
        INFO(tuning << " | " << to_text(one) << ": " << plan.status().message());
        REQUIRE(plan);
        Rig rig(gpu, one, truth.tensors());
        CHECK(rig.run(*plan) == "");
        CHECK(truth.judge(rig.outputs()) == "");
        const auto bits = rig.output_bits();
        CHECK(rig.run(*plan) == "");
        CHECK((rig.output_bits() == bits));  // in brackets: Catch2 would print both
        const double ratio = truth.last_ratio();
        if (uncut == 0) uncut = ratio;
        CHECK(ratio <= 1.25 * uncut + 0.05);
      }
    }
}
