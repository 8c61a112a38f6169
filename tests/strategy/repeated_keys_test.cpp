// Keys that repeat, into no state, under gates that keep almost all: what many tokens write
// cancels, and nothing hides what rounding each of them left.  The bug: scores of bf16 operands,
// each token's rounded for itself, left o with 1.56 times the error that spec 0.6 allows; every
// test of such keys had an initial state, beside which that was little.
#include <string>
#include <vector>

#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;
using reference::GatePattern;
using reference::InputSpec;
using reference::KeyPattern;

namespace {

// What is left to hold: states, 1.2 times what is allowed after 300 tokens, and after thousands
// both, as the part of each chunk's rounding that no key reads adds up while nothing decays.
constexpr double kShort = 1.25;
constexpr double kLong = 3.0;

std::vector<Variant> variants() {
  return {{"recurrent", ""},     {"chunk", ""},         {"chunk_wgmma", ""},  {"segments", ""},
          {"fused", "groups=2"}, {"fused", "groups=3"}, {"fused", "groups=4"}};
}

// bias: the weak gates' dt_bias, by which they decay 2e-5 (-11) to 0.1 (-2) a token, more or less.
std::vector<Trial> repeated(GatePattern gate, double bias, std::int64_t tokens, double allowance) {
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
          out.push_back(trial(words + size + g, {tokens}, spec));
          out.back().allowance = allowance;
        }
  return out;
}

}  // namespace

TEST_CASE("repeated keys into no state compose", "[strategy]") {
  CHECK(compose_only("repeated keys", repeated(GatePattern::mixed, 0, 300, kShort), "sm_90a",
                     variants())
            .failed == 0);
}

TEST_CASE("repeated keys into no state, by every decay", "[gpu][repeated]") {
  for (const double bias : {-11.0, -9.5, -8.0, -6.0, -4.0, -2.0})
    check_on_device(("repeated keys, dt_bias " + std::to_string(bias)).c_str(),
                    repeated(GatePattern::weak, bias, 300, kShort), variants());
  check_on_device("repeated keys, mixed gates", repeated(GatePattern::mixed, 0, 300, kShort),
                  variants());
}

TEST_CASE("repeated keys into no state, thousands of tokens", "[gpu][repeated]") {
  for (const double bias : {-9.5, -8.0})
    check_on_device(("many repeated keys, dt_bias " + std::to_string(bias)).c_str(),
                    repeated(GatePattern::weak, bias, 4096, kLong), variants());
}
