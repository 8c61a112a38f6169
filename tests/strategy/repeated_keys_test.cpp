// Keys that repeat, into no state, under gates that keep almost all: what many tokens write
// cancels, and nothing hides what rounding each of them left.  The bug: scores of bf16 operands,
// each token's rounded for itself, left o with 1.56 times the error that reference/error.hpp
// allows; every test of such keys had an initial state, beside which that was little.
#include <string>
#include <vector>

#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;
using reference::GatePattern;
using reference::InputSpec;
using reference::KeyPattern;

namespace {

// Times what is allowed of o and of states that is held: after 300 tokens, and after thousands,
// when the part of each chunk's rounding that no key reads has added up, as nothing decays.
struct Held {
  std::int64_t tokens;
  double o, state;
};
constexpr Held kFew = {300, 1.1, 1.25};
constexpr Held kMany = {4096, 3.0, 3.0};

std::vector<Variant> variants() {
  return {{"recurrent", ""},     {"chunk", ""},         {"chunk_wgmma", ""},  {"segments", ""},
          {"fused", "groups=2"}, {"fused", "groups=3"}, {"fused", "groups=4"}};
}

// bias: the weak gates' dt_bias, by which they decay 2e-5 (-11) to 0.1 (-2) a token, more or less.
std::vector<Trial> repeated(GatePattern gate, double bias, const Held& held) {
  std::vector<Trial> out;
  for (const KeyPattern pattern : {KeyPattern::identical, KeyPattern::alternating})
    for (const double beta : {0.5, 1.0})
      for (const char* size : {"K=64 V=128 ", "K=128 V=128 "})
        for (const char* g : {"g=bf16 gate=bounded ", "g=f32 gate=softplus "}) {
          InputSpec spec;
          spec.keys = pattern;
          spec.beta = beta;
          spec.gate = gate;
          if (gate == GatePattern::weak) spec.dt_bias_value = bias;
          const std::string words = "beta=f32 beta_logit=0 beta_most_1=1 h0=0 ht=1 ";
          out.push_back(trial(words + size + g, {held.tokens}, spec));
          out.back().o_allowance = held.o;
          out.back().state_allowance = held.state;
        }
  return out;
}

}  // namespace

TEST_CASE("repeated keys into no state compose", "[strategy]") {
  const auto trials = repeated(GatePattern::mixed, 0, kFew);
  const Tally tally = compose_only("repeated keys", trials, "sm_90a", variants());
  CHECK(tally.failed == 0);
  CHECK(tally.refused == 0);
}

TEST_CASE("repeated keys into no state, by every decay", "[gpu][repeated]") {
  for (const double bias : {-11.0, -9.5, -8.0, -6.0, -4.0, -2.0})
    check_on_device(("repeated keys, dt_bias " + std::to_string(bias)).c_str(),
                    repeated(GatePattern::weak, bias, kFew), variants());
  check_on_device("repeated keys, mixed gates", repeated(GatePattern::mixed, 0, kFew), variants());
}

TEST_CASE("repeated keys into no state, thousands of tokens", "[gpu][repeated]") {
  for (const double bias : {-9.5, -8.0})
    check_on_device(("many repeated keys, dt_bias " + std::to_string(bias)).c_str(),
                    repeated(GatePattern::weak, bias, kMany), variants());
}
