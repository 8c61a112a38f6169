// Every row of the table over what a problem may be: dims, dtypes, options, heads, hard inputs.
#include "support/pairwise.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;
using reference::InputSpec;
using reference::KeyPattern;

namespace {

std::vector<Trial> dims() {
  constexpr int kDims[] = {16, 60, 64, 100, 128, 192, 256};
  std::vector<Trial> out;
  int turn = 0;
  for (const int K : kDims)
    for (const int V : kDims) {
      const std::string size = "K=" + std::to_string(K) + " V=" + std::to_string(V) + " ";
      const char* layout = turn++ % 2 == 0 ? "layout=value_first" : "layout=key_first";
      out.push_back(trial(size + all_types("bf16") + layout, {150}));
      out.push_back(trial(size + all_types(turn % 2 == 0 ? "f16" : "f32") + layout, {150}));
    }
  for (const char* size : {"K=1 V=1 ", "K=3 V=200 ", "K=255 V=33 ", "K=8 V=8 ", "K=17 V=1 ",
                           "K=128 V=512 ", "K=40 V=1000 "})
    for (const char* type : kTypes) out.push_back(trial(size + all_types(type), {100}));
  return out;
}

// Every pair of values of every two options.
std::vector<Trial> options() {
  const std::vector<Factor> factors = {
      {"qkv=bf16", "qkv=f16", "qkv=f32"},
      {"g=bf16", "g=f32", "g=f16"},
      {"beta=bf16", "beta=f32", "beta=f16"},
      {"K=64 V=64", "K=128 V=128", "K=60 V=100"},
      {"H=3 HV=3", "H=2 HV=4", "H=1 HV=4", "H=1 HV=8"},
      {"gate=bounded", "gate=softplus", "gate=log_decay", "gate=logsigmoid"},
      {"beta_logit=1", "beta_logit=0", "beta_logit=1 neg_eigval=1", "beta_logit=0 beta_most_1=1"},
      {"l2norm=1", "l2norm=0", "l2norm=0 qk_normalized=1"},
      {"h0=1 ht=1", "h0=0 ht=0", "h0=1 ht=0", "h0=0 ht=1"},
      {"state=f32 layout=value_first", "state=bf16 layout=key_first", "state=f32 layout=key_first",
       "state=bf16 layout=value_first"},
      {"varlen=0", "varlen=1 cu_seqlens=i64", "varlen=1 cu_seqlens=i32"},
      {"", "scale=1", "scale=-0.3"},
  };
  std::vector<Trial> out;
  for (const Row& row : pairwise(factors)) {
    std::string words;
    for (std::size_t i = 0; i < row.size(); ++i) words += factors[i][row[i]] + " ";
    out.push_back(trial(words, {77, 77, 77}));
  }
  return out;
}

// The state's every form on its own, the rest fixed.
std::vector<Trial> states() {
  std::vector<Trial> out;
  for (const char* type : kTypes)
    for (const char* state : {"state=f32 ", "state=bf16 "})
      for (const char* layout : {"layout=value_first ", "layout=key_first "})
        for (const char* wanted : {"h0=1 ht=1", "h0=0 ht=0", "h0=1 ht=0", "h0=0 ht=1"}) {
          out.push_back(trial(qkv(type) + state + layout + wanted, {70}));
          if (std::string(wanted) != "h0=1 ht=1") continue;
          Trial in_place = out.back();
          in_place.in_place_state = true;
          out.push_back(in_place);
          out.push_back(trial(qkv(type) + state + layout + wanted + " varlen=1", {0, 70, 0}));
        }
  return out;
}

std::vector<Trial> groups() {
  std::vector<Trial> out;
  for (const char* type : kTypes)
    for (const char* heads : {"H=3 HV=3 ", "H=3 HV=6 ", "H=2 HV=8 ", "H=2 HV=16 "}) {
      out.push_back(trial(all_types(type) + heads, {90}));
      out.push_back(trial(all_types(type) + heads + "varlen=1 K=128 V=64", {50, 0, 41}));
    }
  return out;
}

// Keys that the inverse finds hard, by every beta.
std::vector<Trial> keys() {
  std::vector<Trial> out;
  for (const char* type : kTypes)
    for (const KeyPattern pattern :
         {KeyPattern::random, KeyPattern::identical, KeyPattern::correlated,
          KeyPattern::alternating, KeyPattern::rank_two, KeyPattern::zero,
          KeyPattern::unnormalised})
      for (const double beta : {0.0, 1e-4, 0.5, 1.0, 1.9, 2.0}) {
        if (pattern == KeyPattern::unnormalised && beta > 1) continue;  // the recurrence diverges
        InputSpec spec;
        spec.keys = pattern;
        spec.beta = beta;
        spec.gate = reference::GatePattern::weak;
        const bool norm = pattern != KeyPattern::unnormalised;
        out.push_back(trial(qkv(type) + "g=f32 beta=f32 beta_logit=0 l2norm=" + (norm ? "1" : "0"),
                            {300}, spec));
      }
  // Steps of up to 1.96 whatever beta is: a long key writes as much as a beta past 1.
  for (const char* type : kTypes)
    for (const char* beta : {"", "beta_logit=0 ", "beta_logit=0 beta_most_1=1 "})
      for (const double value : {0.5, 1.0}) {
        InputSpec spec;
        spec.keys = KeyPattern::overlong;
        spec.beta = value;
        spec.gate = reference::GatePattern::weak;
        out.push_back(trial(qkv(type) + beta + "g=f32 beta=f32 l2norm=0", {300}, spec));
        out.push_back(trial(qkv(type) + beta + "g=f32 beta=f32 l2norm=0 K=128 V=128", {300}, spec));
      }
  return out;
}

// Into no state, so that nothing hides what is written: by tiny betas, and by some whose writes
// have decayed since.  Factors in f16 lost them: all of beta = 2e-8, a hundredth of 1e-6, and ever
// more of what had decayed by more than e^-10.  (Of f16 tensors that is what their type holds.)
std::vector<Trial> little() {
  // Some tokens of every 32, and then silence.
  const auto silence = [](bool bounded, double decay, int writes) {
    InputSpec spec;
    spec.beta = 0.5;
    spec.writes = writes;
    spec.gate = reference::GatePattern::constant;
    spec.A_log = spec.dt_bias = false;
    spec.gate_value = bounded ? -std::log(-5 / decay - 1) : decay;
    return spec;
  };
  std::vector<Trial> out;
  for (const std::string type : kTypes) {
    const auto add = [&](const std::string& gate, const InputSpec& spec) {
      for (const char* norm : {"l2norm=1 ", "beta_logit=0 beta_most_1=1 l2norm=0 qk_normalized=1 ",
                               "beta_logit=0 l2norm=0 "}) {
        const std::string words = qkv(type.c_str()) + "h0=0 ht=1 beta=f32 " + gate + norm;
        out.push_back(trial(words, {96}, spec));
        out.push_back(trial(words + "K=128 V=128", {75}, spec));
      }
    };
    for (const double beta : {1e-4, 1e-5, 1e-6, 2e-8}) {
      if (type == "f16" && beta < 1e-6) continue;
      InputSpec spec;
      spec.beta = beta;
      spec.gate = reference::GatePattern::weak;
      if (type == "f16") spec.v_scale = 100;  // else o is subnormal
      for (const char* gate : {"gate=bounded ", "gate=log_decay g=f32 "}) add(gate, spec);
    }
    for (const double decay : {-0.2, -0.5, -0.7})
      for (const int writes : {3, 8}) {
        if (type == "f16" && decay < -0.2) continue;
        add("gate=log_decay g=f32 ", silence(false, decay, writes));
        add("gate=bounded ", silence(true, decay, writes));
      }
    // Half a chunk, to whose end slabs and teams take keys: these decay by e^-16 on the way.
    if (type == "f16") continue;
    out.push_back(
        trial(qkv(type.c_str()) + "h0=0 ht=1 beta=f32 K=128 V=128", {16}, silence(true, -1.2, 3)));
  }
  return out;
}

std::vector<Trial> magnitudes() {
  std::vector<Trial> out;
  for (const char* type : kTypes)
    for (const double v : {1e-3, 1.0, 1e3, 6e4})
      for (const double state : {1e-3, 1.0, 1e3, 6e4}) {
        // An f16 holds no more than 65504, and neither does a product that takes the state as one.
        if (std::string(type) == "f16" && (v > 1e3 || state > 1e3)) continue;
        InputSpec spec;
        spec.v_scale = v;
        spec.state_scale = state;
        spec.gate = reference::GatePattern::mixed;
        out.push_back(trial(qkv(type), {200}, spec));
      }
  return out;
}

}  // namespace

KDA_SWEEP("dims", dims)
KDA_SWEEP("options", options)
KDA_SWEEP("states", states)
KDA_SWEEP("groups", groups)
KDA_SWEEP("keys and beta", keys)
KDA_SWEEP("little written", little)
KDA_SWEEP("magnitudes", magnitudes)
