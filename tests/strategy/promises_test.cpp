// Problem::beta_at_most_one and qk_normalized: what breaks a promise makes NaN and no guess.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/rig.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

// None where the strategy leaves the problem to others.
std::optional<Plan> served(const Problem& problem, const Variant& variant) {
  Result<Plan> plan = Plan::make(problem, {.strategy = variant.strategy});
  if (!plan && plan.status().code() == Code::unsupported) return std::nullopt;
  INFO(variant.strategy << ": " << plan.status().message());
  REQUIRE(plan);
  return *std::move(plan);
}

}  // namespace

TEST_CASE("a beta out of [0, 1] that was promised to lie there makes NaN from its token on",
          "[gpu]") {
  const std::vector<std::int64_t> lengths = {90, 200, 70};
  for (const char* words : {"K=128 V=128", "K=64 V=128", "K=128 V=128 g=f32 gate=log_decay",
                            "K=60 V=100", "K=128 V=128 qkv=f32"}) {
    const Trial one = complete(trial(
        std::string("varlen=1 H=1 HV=1 beta=f32 beta_logit=0 beta_most_1=1 ") + words, lengths));
    const Gpu gpu;
    Truth truth(one);
    const auto V = static_cast<std::size_t>(one.problem.value_dim);
    const std::size_t state = V * static_cast<std::size_t>(one.problem.key_dim);
    constexpr std::size_t kToken = 101, kBegin = 90, kEnd = 290;  // of the second sequence
    for (const Variant& variant : every_strategy()) {
      const std::optional<Plan> plan = served(one.problem, variant);
      if (!plan) continue;
      INFO(variant.strategy << " | " << to_text(one));
      Rig kept(gpu, one, truth.tensors());
      CHECK(kept.run(*plan) == "");
      CHECK(truth.judge(kept.outputs()) == "");
      const reference::Outputs whole = kept.outputs();
      for (const float beta : {1.0001F, -0.5F}) {
        INFO("beta " << beta);
        reference::Tensors tensors = truth.tensors();
        std::memcpy(tensors.beta.data() + (kBegin + kToken) * sizeof beta, &beta, sizeof beta);
        Rig broken(gpu, one, tensors);
        CHECK(broken.run(*plan) == "");
        reference::Outputs out = broken.outputs();
        std::size_t not_nan = 0;
        for (std::size_t i = (kBegin + kToken) * V; i < kEnd * V; ++i) {
          if (!std::isnan(out.o[i])) ++not_nan;
        }
        for (std::size_t i = state; i < 2 * state; ++i) {
          if (!std::isnan(out.final_state[i])) ++not_nan;
        }
        CHECK(not_nan == 0);
        // The chunks before it and the other sequences are what they were.
        constexpr std::size_t kBefore = kToken / 64 * 64;
        const auto forget = [&](reference::Outputs& x) {
          std::fill(x.o.begin() + std::ptrdiff_t((kBegin + kBefore) * V),
                    x.o.begin() + std::ptrdiff_t(kEnd * V), 0.0);
          std::fill_n(x.final_state.begin() + std::ptrdiff_t(state), state, 0.0);
        };
        reference::Outputs expected = whole;
        forget(expected);
        forget(out);
        CHECK((out.o == expected.o));
        CHECK((out.final_state == expected.final_state));
      }
    }
  }
}

// The bug: where nothing normalised them, long keys that are nearly equal were taken for steps of
// at most one, and o was off by four times what is allowed.  That chunks serve them without a
// promise says every_strategy_test.cpp ("keys and beta"); with one they make NaN.
TEST_CASE("keys longer than was promised make NaN, or what is right", "[gpu]") {
  reference::InputSpec spec;
  spec.keys = reference::KeyPattern::overlong;
  spec.beta = 1;
  spec.gate = reference::GatePattern::weak;
  const Gpu gpu;
  int nan = 0;
  for (const char* words : {"K=128 V=128", "K=64 V=128 g=f32", "K=60 V=100", "K=256 V=64",
                            "K=128 V=128 qkv=f16", "K=128 V=128 qkv=f32"}) {
    const Trial one = complete(
        trial(std::string("H=1 HV=1 beta=f32 l2norm=0 qk_normalized=1 ") + words, {300}, spec));
    Truth truth(one);
    for (const Variant& variant : every_strategy()) {
      const std::optional<Plan> plan = served(one.problem, variant);
      if (!plan) continue;
      INFO(variant.strategy << " | " << to_text(one));
      Rig rig(gpu, one, truth.tensors());
      CHECK(rig.run(*plan) == "");
      const reference::Outputs out = rig.outputs();
      const auto is_nan = [](double x) { return std::isnan(x); };
      if (std::all_of(out.o.begin(), out.o.end(), is_nan) &&
          std::all_of(out.final_state.begin(), out.final_state.end(), is_nan)) {
        ++nan;
        CHECK(std::string(variant.strategy) != "recurrent");
      } else {
        CHECK(truth.judge(out) == "");
      }
    }
  }
  CHECK(nan > 0);
}

// The bug: slabs and teams multiply the scale into rows of q, and took unit rows times less than
// 1/64 for a broken promise: o and the final state were NaN.
TEST_CASE("rows that keep the promise are right by any scale", "[gpu]") {
  std::vector<Trial> trials;
  for (const char* scale : {"scale=0.004 ", "scale=0.02 ", "scale=0.00097 ", "scale=3000 "})
    for (const char* shape : {"K=128 V=128 ", "K=64 V=128 varlen=1 "})
      trials.push_back(
          trial(std::string("H=1 HV=2 l2norm=0 qk_normalized=1 ") + scale + shape, {90, 90, 90}));
  check_on_device("promised rows by any scale", trials);
}

// By groups where slabs, of which teams are made, would multiply too small a scale into them.
TEST_CASE("fused serves promised rows by any scale", "[strategy]") {
  for (const auto& [scale, by_teams] : {std::pair{"scale=0.05", true},
                                        {"scale=0.02", false},
                                        {"scale=0.004", false},
                                        {"scale=0.00097", false},
                                        {"scale=3000", false}}) {
    INFO(scale);
    const auto problem =
        problem::parse(std::string("T=8192 H=64 l2norm=0 qk_normalized=1 h0=1 ht=1 ") + scale);
    REQUIRE(problem);
    CHECK(supports(*problem, {.target = "sm_90a", .strategy = "fused"}));
    const Status teams =
        supports(*problem, {.target = "sm_90a", .strategy = "fused", .tuning = "groups=4"});
    CHECK(teams.ok() == by_teams);
  }
}
