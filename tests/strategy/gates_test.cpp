// No gate is too strong, too weak or too uneven: a grid of them.
#include <limits>

#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;
using reference::GatePattern;
using reference::InputSpec;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kGrid[] = {0,    -1e-4, -0.01, -0.1, -1,  -2.5, -4.95, -5,
                            -5.5, -6,    -11,   -20,  -50, -100, -500,  -kInf};

InputSpec pattern(GatePattern gate, double value, double other = 0) {
  InputSpec spec;
  spec.gate = gate;
  spec.gate_value = value;
  spec.gate_other = other;
  return spec;
}

// The log decay itself, on every dtype.
std::vector<Trial> log_decays() {
  std::vector<Trial> out;
  for (const char* type : kTypes) {
    const std::string words = qkv(type) + "g=f32 beta=f32 gate=log_decay";
    for (const double value : kGrid)
      out.push_back(trial(words, {150}, pattern(GatePattern::constant, value)));
    for (const double strong : {-5.0, -20.0, -500.0, -kInf})
      for (const double other : {0.0, -1e-4, -1.0})
        for (const GatePattern gate :
             {GatePattern::by_token, GatePattern::by_channel, GatePattern::one_channel})
          out.push_back(trial(words, {150}, pattern(gate, strong, other)));
  }
  return out;
}

// One strong token at each place of a chunk of 64, which is each place of a shorter one too.
std::vector<Trial> spikes() {
  std::vector<Trial> out;
  for (const char* type : kTypes)
    for (int position = 0; position < 64; ++position) {
      InputSpec spec = pattern(GatePattern::spike, -0.01, position % 2 == 0 ? -500 : -kInf);
      spec.gate_position = position;
      out.push_back(trial(all_types(type) + "gate=log_decay", {200}, spec));
    }
  return out;
}

// The activations, saturated at both ends, with and without their parameters.
std::vector<Trial> raw_gates() {
  std::vector<Trial> out;
  for (const char* type : kTypes)
    for (const char* gate : {"gate=bounded ", "gate=softplus ", "gate=bounded lower_bound=-40 "}) {
      const std::string words = all_types(type) + gate;
      for (const double raw : {-80.0, -10.0, -1.0, 0.0, 3.0, 25.0, 80.0})
        out.push_back(trial(words, {130}, pattern(GatePattern::constant, raw)));
      for (const double A_log : {-10.0, 4.27}) {
        InputSpec spec;
        spec.A_log_value = A_log;
        out.push_back(trial(words, {130}, spec));
      }
      for (const bool A_log : {false, true})
        for (const bool dt_bias : {false, true})
          for (const GatePattern regime :
               {GatePattern::strong, GatePattern::weak, GatePattern::mixed}) {
            InputSpec spec;
            spec.gate = regime;
            spec.A_log = A_log;
            spec.dt_bias = dt_bias;
            out.push_back(trial(words, {130}, spec));
          }
    }
  return out;
}

// A rate by which g, dt_bias or both would pass f32.  The bug: groups that prepare added g times
// the rate to dt_bias times it, so where that was infinite its sign decided (A_log 88, dt_bias -2
// and g 3 did not decay), and exp(A_log) was infinite from 88.8 on, and nothing times it NaN.
std::vector<Trial> steep_rates() {
  struct Rate {
    double A_log, dt_bias, g;
  };
  std::vector<Trial> out;
  const auto add = [&](const std::string& words, const Rate& rate) {
    InputSpec spec = pattern(GatePattern::constant, rate.g);
    spec.A_log_value = rate.A_log;
    spec.dt_bias_value = rate.dt_bias;
    out.push_back(trial("V=128 " + words, {130}, spec));
  };
  for (const char* type : kTypes) {
    for (const char* gate : {"gate=bounded ", "gate=bounded lower_bound=-20 "})
      for (const Rate rate : {Rate{88, -2, 3},
                              {88, 2, -3},
                              {87, -6, 8},
                              {88.5, 1, -1},
                              {100, 2, -2},
                              {100, 2, -3},
                              {100, -2, 3}})
        add(all_types(type) + gate, rate);
    for (const Rate rate : {Rate{88, 2, -3}, {100, 2, -2}, {100, 0, -300}})
      add(all_types(type) + "gate=softplus ", rate);
  }
  return out;
}

// Logits of the decay itself, from all to nothing in one chunk; the decays of some are no f32.
std::vector<Trial> logits() {
  std::vector<Trial> out;
  for (const char* type : kTypes) {
    const std::string words = all_types(type) + "gate=logsigmoid";
    for (const double value : {-500.0, -100.0, -88.0, -17.0, -1.0, 0.0, 4.0, 17.0, 88.0, 500.0})
      out.push_back(trial(words, {130}, pattern(GatePattern::constant, value)));
    for (const double other : {0.0, 5.0, 500.0})
      for (const GatePattern gate :
           {GatePattern::by_token, GatePattern::by_channel, GatePattern::one_channel})
        out.push_back(trial(words, {150}, pattern(gate, -500, other)));
    for (const GatePattern regime : {GatePattern::strong, GatePattern::weak, GatePattern::mixed})
      out.push_back(trial(words, {300}, pattern(regime, 0)));
  }
  return out;
}

// The patterns again at the size that matters most.
std::vector<Trial> at_128() {
  std::vector<Trial> out;
  for (const char* type : kTypes) {
    const std::string words = all_types(type) + "K=128 V=128 gate=log_decay";
    for (const double value : {0.0, -1e-4, -0.1, -5.0, -20.0, -500.0, -kInf}) {
      out.push_back(trial(words, {300}, pattern(GatePattern::constant, value)));
      out.push_back(trial(words, {300}, pattern(GatePattern::one_channel, value, -1e-4)));
    }
    for (const GatePattern regime : {GatePattern::strong, GatePattern::weak, GatePattern::mixed})
      out.push_back(trial(words, {1000}, pattern(regime, 0)));
  }
  return out;
}

}  // namespace

KDA_SWEEP("log decays", log_decays)
KDA_SWEEP("spikes", spikes)
KDA_SWEEP("raw gates", raw_gates)
KDA_SWEEP("steep rates", steep_rates)
KDA_SWEEP("logits", logits)
KDA_SWEEP("gates at 128", at_128)
