// States that nothing is written to, under a gate that is the same for all tokens: what is left is
// the decay alone.  The bug: slabs and teams round log decays to f16, each token's was as far off,
// and a state of e^-49 was 2.1e-2 off.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;
using reference::InputSpec;

namespace {

std::vector<Variant> variants() {
  return {{"recurrent", ""},     {"chunk", ""},         {"chunk_wgmma", ""},  {"segments", ""},
          {"fused", "groups=2"}, {"fused", "groups=3"}, {"fused", "groups=4"}};
}

// Until some e^-50 is left, or 300 tokens.
std::vector<Trial> repeated() {
  std::vector<Trial> out;
  for (const double decay : {-0.02, -0.3, -0.55, -0.775, -0.9, -1.1, -1.55, -2.2, -3.1, -4.4})
    for (const char* words : {"K=64 V=128 ", "K=128 V=128 lower_bound=-4.6 "}) {
      InputSpec spec;
      spec.beta = 0;
      spec.gate = reference::GatePattern::constant;
      spec.A_log = spec.dt_bias = false;
      const double bound = std::string(words).find("lower_bound") == std::string::npos ? -5 : -4.6;
      spec.gate_value = -std::log(bound / decay - 1);
      const auto tokens = static_cast<std::int64_t>(std::clamp(-50 / decay, 11.0, 300.0));
      out.push_back(
          trial(std::string("g=bf16 gate=bounded beta=f32 beta_logit=0 beta_most_1=1 ") + words,
                {tokens}, spec));
      spec.gate_value = decay;
      out.push_back(
          trial(std::string("g=bf16 gate=log_decay beta=f32 beta_logit=0 beta_most_1=1 ") + words,
                {tokens}, spec));
    }
  return out;
}

}  // namespace

TEST_CASE("repeated gates compose", "[strategy]") {
  const Tally tally = compose_only("repeated gates", repeated(), "sm_90a", variants());
  CHECK(tally.failed == 0);
  CHECK(tally.refused == 0);
}

TEST_CASE("repeated gates", "[gpu][repeated_gates]") {
  check_on_device("repeated gates", repeated(), variants());
}
