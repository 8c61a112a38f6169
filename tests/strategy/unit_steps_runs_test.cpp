// Strategy unit_steps: which way a run goes, on a GPU.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "strategy/by_lengths.hpp"
#include "strategy/unit_steps.hpp"
#include "support/one_run.hpp"
#include "support/pool_sweep.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;
using kda::strategy::unit_steps;

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
