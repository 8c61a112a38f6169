// K of more than 128 by chains of wgmma (chunk_wgmma): a state that fills a warpgroup's registers,
// prepared by groups of six or eight warps where K is 192 or 256, else as strategy chunk does.
#include <string>
#include <utility>
#include <vector>

#include "abi/chunk_wgmma.h"
#include "plan/plan.hpp"
#include "program/program.hpp"
#include "support/pool_sweep.hpp"
#include "support/scratch.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;
using reference::InputSpec;
using reference::KeyPattern;

namespace {

// What serves all trials here.
std::vector<Variant> apart() {
  return {{"chunk_wgmma", ""},
          {"chunk_wgmma", "stages_at_once=1"},
          {"chunk_wgmma", "stages_at_once=1 load_stages=1"},
          {"chunk_wgmma", "stages_at_once=1 chunk=16 load_stages=2 prepare_threads=128"}};
}
// And those that groups prepare.
std::vector<Variant> at_once() {
  return {{"chunk_wgmma", "stages_at_once=2"},
          {"chunk_wgmma", "stages_at_once=2 load_stages=1 preparers=64"}};
}
std::vector<Variant> every_way() {
  std::vector<Variant> all = apart();
  for (const Variant& variant : at_once()) all.push_back(variant);
  return all;
}

// Every end of K's panels and of V's, by every type.
std::vector<Trial> dims() {
  std::vector<Trial> out;
  for (const char* keys : {"K=129 ", "K=160 ", "K=192 ", "K=200 ", "K=255 ", "K=256 "})
    for (const char* values : {"V=64 ", "V=100 ", "V=256 "})
      for (const char* type : {"bf16", "f16"}) {
        if (std::string(type) == "f16" && std::stoi(std::string(keys).substr(2)) > 192) continue;
        const std::string words = std::string(keys) + values + all_types(type);
        out.push_back(trial(words, {150}));
        out.push_back(trial(words + "H=1 HV=2 varlen=1 state=bf16 layout=key_first", {0, 33, 97}));
      }
  return out;
}

std::vector<Trial> lengths() {
  std::vector<Trial> out;
  for (const char* size : {"K=256 V=256 ", "K=192 V=64 "})
    for (const char* gate : {"g=bf16 ", "g=f32 ", "g=f16 gate=softplus "}) {
      const std::string words = std::string(size) + gate;
      for (const std::int64_t T : {0, 1, 31, 32, 33, 257}) out.push_back(trial(words, {T}));
      out.push_back(trial(words + "H=1 HV=3", {130, 130}));
      out.push_back(trial(words + "varlen=1", {257, 0, 3, 40, 700}));
      out.push_back(trial(words + "varlen=1 H=2 HV=4 cu_seqlens=i32", {0, 1, 0, 1, 64}));
      out.push_back(trial(words + "varlen=1 h0=0 ht=0", {1, 300, 33}));
    }
  // More tiles than groups, so that each takes several.
  out.push_back(trial("K=256 V=256 H=4 HV=4", {4001, 4001}));
  out.push_back(trial("K=256 V=128 HV=4 varlen=1", {1, 9000, 0, 31}));
  return out;
}

// Each way to build scores, alone and within a run.
std::vector<Trial> gates() {
  std::vector<Trial> out;
  const std::string words = "g=f32 beta=f32 gate=log_decay ";
  for (const InputSpec& spec : gates_of_every_way())
    for (const char* K : {"K=192 ", "K=256 "}) {
      out.push_back(trial(words + K + "V=256", {300}, spec));
      out.push_back(trial(words + K + "V=64 HV=4", std::vector<std::int64_t>(12, 700), spec));
    }
  return out;
}

// Keys that the inverse finds hard, and rows that come normalised or are none at all.
std::vector<Trial> keys() {
  std::vector<Trial> out;
  for (const KeyPattern pattern :
       {KeyPattern::random, KeyPattern::identical, KeyPattern::correlated, KeyPattern::alternating,
        KeyPattern::rank_two, KeyPattern::zero})
    for (const double beta : {1e-6, 0.5, 1.0})
      for (const char* norm : {"l2norm=1 ", "l2norm=0 qk_normalized=1 "}) {
        InputSpec spec;
        spec.keys = pattern;
        spec.beta = beta;
        spec.gate = reference::GatePattern::weak;
        const std::string words =
            "V=128 g=f32 beta=f32 beta_logit=0 beta_most_1=1 " + std::string(norm);
        out.push_back(trial(words + "K=192", {300}, spec));
        out.push_back(trial(words + "K=256", {300}, spec));
      }
  return out;
}

// Writes past 1, by beta and by long rows, which the other prepare stage serves.
std::vector<Trial> hard_keys() {
  std::vector<Trial> out;
  for (const char* words : {"qkv=bf16 K=192 ", "qkv=bf16 K=256 ", "qkv=f16 K=192 "})
    for (const KeyPattern pattern :
         {KeyPattern::identical, KeyPattern::alternating, KeyPattern::overlong}) {
      const bool overlong = pattern == KeyPattern::overlong;
      InputSpec spec;
      spec.keys = pattern;
      spec.beta = overlong ? 1.0 : 1.9;
      spec.gate = reference::GatePattern::weak;
      const std::string norm = overlong ? "l2norm=0 " : "l2norm=1 ";
      out.push_back(trial(words + norm + "V=128 g=f32 beta=f32 beta_logit=0", {300}, spec));
    }
  return out;
}

std::vector<Trial> places() {
  return in_every_place(trial("K=256 V=256 HV=4 varlen=1", {300, 0, 33, 129}));
}

std::vector<PoolTrial> pools() {
  std::vector<PoolTrial> out;
  for (const char* words :
       {"K=256 V=256 varlen=1", "K=256 V=128 varlen=1 h0=0 zero_padding=1 state=bf16",
        "K=256 V=256 varlen=1 checkpoint=64", "K=256 V=100 varlen=1 checkpoint=64",
        "K=256 V=64 varlen=1 checkpoint=64 layout=key_first",
        "K=192 V=128 varlen=1 checkpoint=64 state=bf16"}) {
    PoolTrial one;
    one.trial = trial(std::string("pool=1 ") + words, {33, 0, 100, 1, 64, 257, 300, 5, 192});
    SlotsSpec spec;
    spec.sequences = static_cast<int>(one.trial.lengths.size());
    spec.checkpoint_columns = one.trial.problem.checkpoint_tokens > 0 ? 5 : 0;
    one.slots = make_slots(spec);
    out.push_back(one);
  }
  return out;
}

}  // namespace

TEST_CASE("wide keys compose where they serve", "[strategy]") {
  for (const auto& trials :
       {dims(), lengths(), gates(), keys(), hard_keys(), places(), plain(pools())}) {
    const Tally tally = compose_only("wide keys", trials, "sm_90a", apart());
    CHECK(tally.failed == 0);
    CHECK(tally.refused == 0);
  }
  for (const auto& trials : {lengths(), gates(), keys(), places()}) {
    const Tally tally = compose_only("wide keys at once", trials, "sm_90a", at_once());
    CHECK(tally.failed == 0);
    CHECK(tally.refused == 0);
  }
}

TEST_CASE("what registers have no room for is refused", "[strategy]") {
  const Options wgmma{.target = "sm_90a", .strategy = "chunk_wgmma"};
  const auto refusal = [&](const char* words, const char* tuning = "") {
    Options options = wgmma;
    options.tuning = tuning;
    const Status status = supports(problem_in_words(words), options);
    CHECK(status.code() == Code::unsupported);
    return status.message();
  };
  CHECK(supports(problem_in_words("H=4 K=256 V=256 pool=1 ht=1 checkpoint=64"), wgmma));
  CHECK_THAT(refusal("H=4 K=256 V=256 pool=1 ht=1 checkpoint=64 state=bf16"),
             contains("key_dim is 256 with checkpoints of 16 bits"));
  CHECK_THAT(refusal("H=4 K=256 V=64 qkv=f16"), contains("key_dim is 256 with f16"));
  CHECK_THAT(refusal("H=4 K=200 V=64 wy=32"), contains("key_dim is 200 with w and u"));
  CHECK_THAT(refusal("H=4 K=256 V=128", "warpgroups=2"), contains("warpgroups=1 chunk=32 does"));
  CHECK_THAT(refusal("H=4 K=192 V=128", "chunk=64 stages_at_once=1 preparers=100"),
             contains("chunk=32 does"));
  CHECK_THAT(refusal("H=4 K=32 V=128"), contains("33 to 256 are served"));
}

TEST_CASE("wide keys do not spill", "[strategy][compile]") {
  constexpr const char* kCases[] = {
      "K=256 V=256 H=4 h0=1 ht=1",
      "K=256 V=100 H=2 HV=4 N=3 varlen=1 g=f32 gate=log_decay beta=f32 h0=1 ht=1 state=bf16",
      "K=256 V=128 H=4 h0=1 ht=1 pool=1 checkpoint=64 varlen=1",
      "K=192 V=256 H=4 h0=1 ht=1 qkv=f16 state=bf16 layout=key_first",
      "K=192 V=192 H=64 h0=1 ht=1 varlen=1 N=4",
      "K=256 V=256 H=64 h0=1 ht=1 neg_eigval=1",
      "K=192 V=128 H=64 h0=1 ht=1 pool=1 checkpoint=64 state=bf16",
      "K=192 V=128 H=4 h0=1 ht=1 qkv=f16",
      "K=256 V=128 H=16 N=257 h0=1 ht=1 pool=1 varlen=1 mixed=1",
  };
  const Scratch cache;
  std::vector<Problem> problems;
  for (const char* words : kCases) problems.push_back(problem_in_words(words));
  const auto plans = plan::make_all(
      problems, {.target = "sm_90a", .cache_dir = cache.path(), .strategy = "chunk_wgmma"});
  for (std::size_t i = 0; i < plans.size(); ++i) {
    INFO(kCases[i] << ": " << plans[i].status().message());
    REQUIRE(plans[i]);
    for (const program::Kernel& kernel : (*plans[i])->program.kernels)
      CHECK(kernel.resources.spill_bytes == 0);
  }
}

TEST_CASE("wide keys of every size", "[gpu][wide]") {
  check_on_device("wide dims", dims(), apart());
}

TEST_CASE("wide keys at every length", "[gpu][wide]") {
  check_on_device("wide lengths", lengths(), every_way());
}

TEST_CASE("wide keys under every gate", "[gpu][wide]") {
  check_on_device("wide gates", gates(), every_way());
}

TEST_CASE("wide keys that the inverse finds hard", "[gpu][wide]") {
  check_on_device("wide keys", keys(), at_once());
  check_on_device("wide hard keys", hard_keys(), apart());
}

TEST_CASE("wide keys in odd places", "[gpu][wide]") {
  check_on_device("wide places", places(), every_way());
}

TEST_CASE("wide keys from and to pools", "[gpu][wide]") {
  check_pools_on_device("wide pools", pools(), apart());
}
