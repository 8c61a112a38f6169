// Strategy segments gives T up while it is small, and goes again where that would be seen.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "abi/segments.h"
#include "problem/shape.hpp"
#include "reference/error.hpp"
#include "strategy/segments.hpp"
#include "support/device_memory.hpp"
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

Result<compose::Recipe> recipe_of(const Problem& problem, const Tuning& tuning) {
  return segments.compose(problem, h200(), tunable::values_of(tuning, abi::segments::tunables));
}

std::vector<std::string> stages_of(const char* words, const Tuning& tuning) {
  const auto recipe = recipe_of(problem_in_words(words), tuning);
  INFO(recipe.status().message());
  REQUIRE(recipe);
  std::vector<std::string> names;
  for (const compose::Stage& stage : recipe->stages) names.push_back(stage.name);
  return names;
}

// Segments of 2048 and 4096 tokens.
constexpr const char* kTunings[] = {
    "chunk=16 prepare_threads=128 segment=128 warpgroups=1 load_stages=6",
    "chunk=16 prepare_threads=128 segment=128 warpgroups=2 load_stages=6",
    "chunk=32 prepare_threads=256 segment=128 warpgroups=2 load_stages=6"};
// The same kernels, but for what they ask of T.
constexpr const char* kNeverGivesUp =
    "chunk=32 prepare_threads=256 segment=64 warpgroups=2 load_stages=6";

// Two warpgroups a block are for bf16 and tiles of V that are whole.
bool serves(const Problem& problem, const std::string& tuning) {
  return tuning.find("warpgroups=2") == std::string::npos ||
         (problem.qkv_type == DType::bf16 && problem.value_dim % 64 == 0);
}

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const char* tuning : kTunings) out.push_back({"segments", tuning});
  return out;
}

// By a decay of so much a token T of 128 channels is below 2^-10 after 9 / (decay + 1 / 360)
// tokens.
Trial decaying(const char* words, double decay, std::vector<std::int64_t> lengths) {
  InputSpec spec;
  spec.gate = GatePattern::constant;
  spec.gate_value = -decay;
  return complete(
      trial(std::string("g=f32 gate=log_decay K=128 H=1 HV=2 ") + words, std::move(lengths), spec));
}

// A run, and what it left in the workspace.
struct Seen {
  reference::Outputs out;
  unsigned unsure = 0;
  std::vector<int> looks;  // of 64 columns of T each, by segment and head
};

Seen see(const Gpu& gpu, const Trial& one, const reference::Tensors& tensors, const char* tuning) {
  const auto plan = Plan::make(one.problem, {.strategy = "segments", .tuning = tuning});
  INFO(tuning << " | " << to_text(one) << ": " << plan.status().message());
  REQUIRE(plan);
  const auto values =
      tunable::parse(tuning, segments.space(), segments.defaults(one.problem, h200()));
  REQUIRE(values);
  const auto recipe = segments.compose(one.problem, h200(), *values);
  REQUIRE(recipe);
  Seen seen;
  Rig rig(gpu, one, tensors);
  const auto run = [&](const Forward& forward, void* workspace, std::size_t bytes, Stream stream) {
    const Status status = plan->run(forward, workspace, bytes, stream);
    gpu.synchronize();
    compose::Launch launch;
    recipe->stages[1].bind({forward, static_cast<std::byte*>(workspace)}, launch);
    abi::segments::Args args;
    std::memcpy(&args, launch.args, sizeof args);
    if (!status || args.given_up.unsure == nullptr) return status;
    const auto download = [&](void* to, const void* from, std::size_t count) {
      must(gpu.driver().MemcpyDtoH(to, reinterpret_cast<CUdeviceptr>(from), count), "download");
    };
    download(&seen.unsure, args.given_up.unsure, sizeof seen.unsure);
    const int chunk = tunable::tuning_of<Tuning>(*values, abi::segments::tunables).chunk;
    const std::int64_t slots = one.tokens() / (std::int64_t{args.segments.chunks} * chunk) + 1;
    seen.looks.resize(static_cast<std::size_t>(slots * one.problem.value_heads * 2));
    download(seen.looks.data(), args.given_up.looks, seen.looks.size() * sizeof(int));
    return status;
  };
  CHECK(rig.run(run, plan->workspace_bytes()) == "");
  seen.out = rig.outputs();
  return seen;
}

// The relative error of o from a token on, of one V column or of all (-1).
double error_from(std::int64_t token, int column, const Trial& one, const reference::Outputs& x,
                  const reference::Outputs& truth) {
  const auto row = static_cast<std::size_t>(one.problem.value_heads * one.problem.value_dim);
  double off = 0, all = 0;
  for (std::size_t i = static_cast<std::size_t>(token) * row; i < x.o.size(); ++i) {
    if (column >= 0 && i % row != static_cast<std::size_t>(column)) continue;
    off += (x.o[i] - truth.o[i]) * (x.o[i] - truth.o[i]);
    all += truth.o[i] * truth.o[i];
  }
  return std::sqrt(off / all);
}

double state_error(const reference::Outputs& x, const reference::Outputs& truth) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < truth.final_state.size(); ++i) {
    off += (x.final_state[i] - truth.final_state[i]) * (x.final_state[i] - truth.final_state[i]);
    all += truth.final_state[i] * truth.final_state[i];
  }
  return std::sqrt(off / all);
}

}  // namespace

TEST_CASE("long segments of what never grows are given up, and may go again", "[strategy]") {
  using Names = std::vector<std::string>;
  const Names once{"prepare", "walk", "correct"};
  const Names twice{"prepare", "walk", "correct", "walk_again", "correct_again"};
  CHECK(stages_of("T=65536 H=8", {.segment = 128}) == twice);
  CHECK(stages_of("T=65536 H=8", {.segment = 64}) == once);
  CHECK(stages_of("T=65536 H=8 beta_logit=0 qk_normalized=1 l2norm=0 beta_most_1=1",
                  {.segment = 128}) == twice);
  CHECK(stages_of("T=65536 H=8 neg_eigval=1", {.segment = 128}) == twice);
  // Keys or betas of any size: T may grow from where it was given up.
  CHECK(stages_of("T=65536 H=8 l2norm=0", {.segment = 128}) == once);
  CHECK(stages_of("T=65536 H=8 beta_logit=0", {.segment = 128}) == once);

  // What is never cut has no T, nor what is not cut in a run.
  CHECK(stages_of("T=4096 H=8", {.segment = 128}) == once);
  CHECK(stages_of("T=4097 N=16 H=8", {.segment = 128}) == twice);
  const Problem problem = problem_in_words("T=65536 H=8 h0=1 ht=1");
  const auto recipe = recipe_of(problem, {.segment = 128});
  REQUIRE(recipe);
  Forward brief{.tokens = 4096};
  problem::fill_strides(problem, brief);
  for (std::size_t stage : {std::size_t{3}, std::size_t{4}}) {
    compose::Launch launch;
    recipe->stages[stage].bind({brief, nullptr}, launch);
    CHECK(launch.grid[0] == 0);
  }
}

TEST_CASE("T that is small is given up, as exactly", "[gpu][segments]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const char* type : {"qkv=bf16 ", "qkv=f16 "}) {
    for (const char* words : {"V=128 ", "V=128 ht=0 ", "V=200 "}) {
      const Trial one = decaying((std::string(type) + words).c_str(), 0.01, {9000});
      Truth truth(one);
      const Seen whole = see(gpu, one, truth.tensors(), kNeverGivesUp);
      CHECK(truth.judge(whole.out) == "");
      const double ratio = truth.last_ratio();
      for (const char* tuning : kTunings) {
        INFO(tuning << " | " << to_text(one));
        if (!serves(one.problem, tuning)) continue;
        const Seen seen = see(gpu, one, truth.tensors(), tuning);
        CHECK(truth.judge(seen.out) == "");
        CHECK(truth.last_ratio() < 1.02 * ratio + 0.01);
        CHECK(seen.unsure == 0);
        int given_up = 0;
        for (const int look : seen.looks) given_up += look >= 0 && look < 8 ? 1 : 0;
        CHECK(given_up >= 2 * one.problem.value_heads);  // of a segment at least
      }
    }
  }
}

// Without values all that is left is what T makes of the initial state: nothing beside which it
// would be little.
TEST_CASE("T is not given up where its states are all there is", "[gpu][segments]") {
  if (!on_device()) return;
  const Gpu gpu;
  Trial one = decaying("V=128", 0.003, {9000});
  one.inputs.v_scale = 0;
  for (const bool in_place : {false, true}) {
    one.in_place_state = in_place;
    Truth truth(one);
    const Seen whole = see(gpu, one, truth.tensors(), kNeverGivesUp);
    for (const char* tuning : kTunings) {
      INFO(tuning << " | " << to_text(one));
      const Seen seen = see(gpu, one, truth.tensors(), tuning);
      CHECK(seen.unsure != 0);
      for (const int token : {0, 2048, 4096, 6000, 8192}) {
        INFO(token);
        const double error = error_from(token, -1, one, whole.out, truth.outputs());
        CHECK(error < 0.1);
        CHECK(error_from(token, -1, one, seen.out, truth.outputs()) < 1.5 * error + 1e-3);
      }
      CHECK(truth.judge(whole.out) == "");
      const double state = truth.last_errors().state.rel_l2;
      truth.judge(seen.out);
      CHECK(truth.last_errors().state.rel_l2 < 1.5 * state + 1e-3);
    }
  }
}

// Columns of V never meet: one without values is not judged by the others.
TEST_CASE("each column of V is looked at for itself", "[gpu][segments]") {
  if (!on_device()) return;
  const Gpu gpu;
  const Trial one = decaying("V=128", 0.003, {9000});
  Truth truth(one);
  constexpr int kColumn = 128 + 77;
  reference::Tensors tensors = truth.tensors();
  auto* v = reinterpret_cast<std::uint16_t*>(tensors.v.data());
  for (std::size_t t = 0; t < 9000; ++t) v[t * 256 + kColumn] = 0;
  const reference::Outputs exact = reference::recurrence(reference::reference_inputs(tensors));
  const Seen whole = see(gpu, one, tensors, kNeverGivesUp);
  for (const char* tuning : kTunings) {
    INFO(tuning);
    const Seen seen = see(gpu, one, tensors, tuning);
    CHECK(seen.unsure != 0);
    for (const int token : {2048, 4096, 6000, 8192}) {
      const double error = error_from(token, kColumn, one, whole.out, exact);
      CHECK(error < 0.1);
      CHECK(error_from(token, kColumn, one, seen.out, exact) < 1.5 * error + 1e-3);
    }
  }
}

// The bug: what was given up was little beside each V column of S_local, in other channels, too;
// once gates had cleared these nothing was left of the state.
TEST_CASE("each channel is looked at for itself", "[gpu][segments]") {
  if (!on_device()) return;
  const Gpu gpu;
  const std::int64_t tokens_of[] = {2048, 2048, 4096};
  for (std::size_t i = 0; i < std::size(kTunings); ++i) {
    const OpenChannel input(2, tokens_of[i]);
    INFO(kTunings[i]);
    const Seen seen = see(gpu, input.trial(), input.tensors(), kTunings[i]);
    CHECK(seen.unsure != 0);
    input.check(seen.out);
    input.check(see(gpu, input.trial(), input.tensors(), kNeverGivesUp).out);
  }
}

// The bug: where 64 columns of T were given up and the others were not, the state after the segment
// had what T made of them at the look, which no gate behind it had cleared.  Here channels from 64
// on have neither keys nor gates, so that T stays 1 there, and the others are cleared behind the
// look.
TEST_CASE("what is given up adds nothing where the rest of T is not", "[gpu][segments]") {
  if (!on_device()) return;
  const Gpu gpu;
  const std::size_t tokens_of[] = {2048, 2048, 4096};
  for (std::size_t i = 0; i < std::size(kTunings); ++i) {
    const std::size_t each = tokens_of[i];
    const std::size_t tokens = 2 * each + 100, cleared = 2 * each - 300;
    const Trial one = decaying("V=128 h0=0", 0.01, {static_cast<std::int64_t>(tokens)});
    Truth truth(one);
    reference::Tensors tensors = truth.tensors();
    for (reference::Bytes* rows : {&tensors.q, &tensors.k}) {
      auto* x = reinterpret_cast<std::uint16_t*>(rows->data());
      for (std::size_t t = 0; t < tokens; ++t) std::fill_n(x + t * 128 + 64, 64, 0);
    }
    auto* g = reinterpret_cast<float*>(tensors.g.data());
    auto* v = reinterpret_cast<std::uint16_t*>(tensors.v.data());
    for (std::size_t row = 0; row < 2 * tokens; ++row) {  // of two value heads
      std::fill_n(g + row * 128 + 64, 64, 0.0F);
      if (row / 2 == cleared) std::fill_n(g + row * 128, 64, -100.0F);
      if (row / 2 < cleared) continue;
      for (std::size_t c = 0; c < 128; ++c) {  // times 2^-26, in a bf16's exponent
        std::uint16_t& x = v[row * 128 + c];
        x = (x & 0x7f80) > 26 << 7 ? static_cast<std::uint16_t>(x - (26 << 7)) : 0;
      }
    }
    const reference::Outputs exact = reference::recurrence(reference::reference_inputs(tensors));
    for (const char* tuning : {kTunings[i], kNeverGivesUp}) {
      INFO(tuning);
      const Seen seen = see(gpu, one, tensors, tuning);
      CHECK(seen.unsure == 0);
      CHECK(error_from(static_cast<std::int64_t>(2 * each), -1, one, seen.out, exact) < 0.02);
      CHECK(state_error(seen.out, exact) < 0.02);
      if (tuning == kNeverGivesUp) continue;
      const std::size_t second = 2 * 2;  // looks of the second segment, two halves a head
      CHECK(seen.looks.at(second) >= 0);
      CHECK(seen.looks.at(second + 1) < 0);
    }
  }
}

// What one run has set in a workspace the next one must not see.
TEST_CASE("a run after one that went again is sure", "[gpu][segments]") {
  if (!on_device()) return;
  const Gpu gpu;
  const Trial one = decaying("V=128", 0.003, {9000});
  Trial without = one;
  without.inputs.v_scale = 0;
  Truth truth(one), truth_without(without);
  for (const char* tuning : kTunings) {
    INFO(tuning);
    const auto plan = Plan::make(one.problem, {.strategy = "segments", .tuning = tuning});
    REQUIRE(plan);
    const Seen alone = see(gpu, one, truth.tensors(), tuning);
    CHECK(alone.unsure == 0);
    Rig before(gpu, without, truth_without.tensors());
    Rig rig(gpu, one, truth.tensors());
    before.reset();
    CHECK(rig.run(behind(*plan, before), plan->workspace_bytes()) == "");
    const reference::Outputs out = rig.outputs();
    CHECK((out.o == alone.out.o));
    CHECK((out.final_state == alone.out.final_state));
  }
}

TEST_CASE("an infinite state is not given up", "[gpu][segments]") {
  if (!on_device()) return;
  const Gpu gpu;
  const Trial one = decaying("V=128", 0.01, {9000});
  Truth truth(one);
  reference::Tensors tensors = truth.tensors();
  spoil_column(tensors);
  for (const char* tuning : kTunings) {
    INFO(tuning);
    const Seen seen = see(gpu, one, tensors, tuning);
    CHECK(seen.unsure != 0);
    check_only_that_is_spoilt(seen.out, 256);
  }
}

namespace {

// Sequences of no segment, one and several, some with nothing but a state.
std::vector<Trial> packs() {
  std::vector<Trial> out;
  for (const double decay : {0.01, 0.003, 0.0}) {
    for (const double v : {1.0, 0.0}) {
      if (decay == 0 && v == 0) continue;  // rounding alone is more than is allowed
      Trial one = decaying("V=128 varlen=1", decay, {300, 5000, 0, 2048, 4097, 17});
      one.inputs.v_scale = v;
      one.in_place_state = v == 0.0;
      out.push_back(one);
    }
  }
  return out;
}

std::vector<PoolTrial> pools() {
  std::vector<PoolTrial> out;
  for (const Trial& one : packs()) {
    for (const int every : {0, 4096}) {
      PoolTrial pool;
      pool.trial = one;
      pool.trial.in_place_state = false;
      pool.trial.problem.state_pool = true;
      pool.trial.problem.checkpoint_tokens = every;
      pool.slots = make_slots({.sequences = static_cast<int>(one.lengths.size()),
                               .checkpoint_columns = every > 0 ? 1 : 0,
                               .prefixes = true,
                               .seed = out.size() + 1});
      pool.gap = 64;
      out.push_back(pool);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("packs whose segments are given up", "[gpu][segments]") {
  check_on_device("packs given up", packs(), variants());
}

TEST_CASE("pools whose segments are given up", "[gpu][segments]") {
  check_pools_on_device("pools given up", pools(), variants());
}

// The bug: of offsets that make no sense `correct` asks for segments that the walk has not met, and
// took what the workspace held for a look, by which it read far outside.
TEST_CASE("looks that were never written are none", "[gpu][segments]") {
  if (!on_device()) return;
  const Gpu gpu;
  Trial one = decaying("V=128 varlen=1", 0.01, {5000, 300, 4100});
  Truth truth(one);
  for (const std::vector<std::int64_t>& offsets :
       {std::vector<std::int64_t>{0, 9000, 100, 9400}, {8000, 200, 9300, 50}}) {
    one.cu_seqlens = offsets;
    for (const char* tuning : kTunings) {
      INFO(tuning << " | " << to_text(one));
      const auto plan = Plan::make(one.problem, {.strategy = "segments", .tuning = tuning});
      REQUIRE(plan);
      Rig rig(gpu, one, truth.tensors());
      const auto run = [&](const Forward& forward, void* workspace, std::size_t bytes,
                           Stream stream) {
        constexpr unsigned char kLarge = 0x7e;  // of a look, some two billion
        must(gpu.driver().MemsetD8(reinterpret_cast<CUdeviceptr>(workspace), kLarge, bytes),
             "fill");
        return plan->run(forward, workspace, bytes, stream);
      };
      CHECK(rig.run(run, plan->workspace_bytes()) == "");
    }
  }
}

TEST_CASE("segments that are given up compose", "[strategy]") {
  for (const std::vector<Trial>& trials : {packs(), plain(pools())}) {
    const Tally tally = compose_only("given up", trials, "sm_90a", variants());
    CHECK(tally.failed == 0);
    CHECK(tally.refused == 0);
    CHECK(tally.passed > 0);
  }
}
