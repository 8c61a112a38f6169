// Trials in words, and the two tests that every list of them gets.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "problem/problem.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/pool_sweep.hpp"
#include "support/sweep.hpp"

namespace kda::test {

// The words of problem::to_text over K = V = 64, two heads, states given and wanted.
inline Trial trial(const std::string& words, std::vector<std::int64_t> lengths,
                   const reference::InputSpec& inputs = {}) {
  Problem base{.heads = 2, .value_heads = 2, .key_dim = 64, .value_dim = 64};
  base.initial_state = base.final_state = true;
  const auto problem = problem::parse(words, base);
  INFO(problem.status().message());
  REQUIRE(problem);
  Trial out;
  out.problem = *problem;
  out.lengths = std::move(lengths);
  out.inputs = inputs;
  return out;
}

inline std::string qkv(const char* type) { return std::string("qkv=") + type + " "; }
// A problem's three input types at once.
inline std::string all_types(const char* type) {
  const std::string name = type;
  return "qkv=" + name + " g=" + name + " beta=" + name + " ";
}
inline constexpr const char* kTypes[] = {"bf16", "f16", "f32"};

// Gates that take each of the three ways to build scores (sm90/factors), and others within a run.
inline std::vector<reference::InputSpec> gates_of_every_way() {
  using reference::GatePattern;
  std::vector<reference::InputSpec> out;
  const auto add = [&](GatePattern gate, double value, double other) {
    reference::InputSpec spec;
    spec.gate = gate;
    spec.gate_value = value;
    spec.gate_other = other;
    out.push_back(spec);
  };
  for (const double value : {0.0, -0.01, -1.0, -5.0, -50.0, -500.0})
    add(GatePattern::constant, value, 0);
  for (const GatePattern gate : {GatePattern::by_token, GatePattern::by_channel, GatePattern::spike,
                                 GatePattern::one_channel})
    add(gate, -0.01, -500.0);
  return out;
}

// A pack of sequences in every place: states in place, NaN past the last sequence, rows that no
// 16-byte copy can load, offsets that make no sense (those must end and stay inside).
inline std::vector<Trial> in_every_place(Trial one) {
  one.in_place_state = true;
  std::vector<Trial> out = {one};
  one.tail = 70;
  for (const Layout layout : {Layout::heads_first, Layout::sliced, Layout::gapped}) {
    one.layout = layout;
    out.push_back(one);
  }
  one.misaligned = 1;
  out.push_back(one);
  for (const std::vector<std::int64_t>& first :
       {std::vector<std::int64_t>{0, 300, 100, 120, 5000}, {440, 200, 0, 300, 310}}) {
    one.cu_seqlens = first;
    one.cu_seqlens.resize(one.lengths.size() + 1, 5);
    out.push_back(one);
  }
  return out;
}

// Whether the longest sequence of a completed trial has more than such a share of its tokens.
inline bool has_longer(const Trial& one, double share) {
  const auto longest = *std::max_element(one.lengths.begin(), one.lengths.end());
  return static_cast<double>(longest) > share * static_cast<double>(one.tokens());
}

inline Plan plan_of(const Problem& problem, const std::string& strategy) {
  Options options;
  options.strategy = strategy;
  Result<Plan> plan = Plan::make(problem, options);
  INFO(strategy << ": " << plan.status().message());
  REQUIRE(plan);
  return *std::move(plan);
}

// Tagged [gpu]: all right on the device, and something was run.
inline void check_on_device(const char* title, const std::vector<Trial>& trials,
                            const std::vector<Variant>& variants = every_strategy()) {
  if (!on_device()) return;
  const Tally tally = sweep(title, trials, variants);
  CHECK(tally.failed == 0);
  CHECK(tally.passed > 0);
}

// The same of pools, by variants that serve all of them.
inline void check_pools_on_device(const char* title, const std::vector<PoolTrial>& trials,
                                  const std::vector<Variant>& variants) {
  if (!on_device()) return;
  const Tally tally = sweep_pools(title, trials, variants);
  CHECK(tally.failed == 0);
  CHECK(tally.refused == 0);
  CHECK(tally.passed > 0);
}

// On any host: every trial is a legal problem; `recurrent` and `chunk` compose kernels for all of
// them, the others for what they say they serve.
inline void check_composes(const char* title, const std::vector<Trial>& trials) {
  const std::vector<Variant> every_problem = {{"recurrent", ""}, {"chunk", ""}};
  const Tally all = compose_only(title, trials, "sm_90a", every_problem);
  CHECK(all.failed == 0);
  CHECK(all.passed == static_cast<int>(trials.size() * every_problem.size()));
  CHECK(compose_only(title, trials, "sm_90a").failed == 0);
}

}  // namespace kda::test

// A list of trials as two test cases, on the device and composed without one.
#define KDA_SWEEP(title, list)                                  \
  TEST_CASE("every strategy, on the device: " title, "[gpu]") { \
    kda::test::check_on_device(title, list());                  \
  }                                                             \
  TEST_CASE("every strategy composes: " title) { kda::test::check_composes(title, list()); }
