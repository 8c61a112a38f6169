// Small and few, every kernel and dtype: what compute-sanitizer watches (tools/device_check.sh).
#include "support/device_memory.hpp"
#include "support/pool_sweep.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

std::vector<Trial> whole() {
  std::vector<Trial> out;
  for (const char* type : kTypes) {
    out.push_back(trial(all_types(type) + "H=1 HV=2 varlen=1", {35, 0, 64, 1}));
    out.push_back(trial(all_types(type) + "H=1 HV=1 K=60 V=100 layout=key_first state=bf16", {70}));
    out.push_back(trial(all_types(type) + "H=1 HV=1 K=256 V=16 gate=softplus", {40}));
    out.push_back(trial(all_types(type) + "H=1 HV=1 K=128 V=128 gate=log_decay h0=0", {66}));
  }
  // As many chunks as all groups of a pair of blocks have in two rounds.
  out.push_back(trial("K=128 V=128 H=1 HV=1", {600}));
  out.push_back(trial("K=128 V=128 H=1 HV=1 varlen=1", {300, 0, 33, 129}));
  return out;
}

std::vector<Trial> placed() {
  std::vector<Trial> out;
  for (const char* type : kTypes) {
    Trial one = trial(all_types(type) + "H=1 HV=2 K=60 V=100 varlen=1 cu_seqlens=i32", {20, 0, 18});
    one.layout = Layout::gapped;
    one.misaligned = 1;
    one.tail = 5;
    out.push_back(one);
    one.cu_seqlens = {0, 30, 10, 5000};
    out.push_back(one);
    // More chunks than a ring has slots, o moved otherwise than v could be.
    one = trial(all_types(type) + "H=1 HV=1 K=64 V=64", {260});
    one.misaligned_o = 1;
    out.push_back(one);
  }
  Trial two_rounds = trial("K=64 V=128 H=1 HV=1", {600});
  two_rounds.misaligned = 1;
  out.push_back(two_rounds);
  return out;
}

// More sequences than a block takes at once, and short ones more than slices of a ring.
std::vector<Trial> many() {
  std::vector<std::int64_t> decodes(40, 1);
  decodes.insert(decodes.begin() + 20, {70, 8, 0, 3, 9});
  std::vector<Trial> out;
  for (const char* words : {"K=128 V=128 H=1 HV=2 varlen=1", "K=64 V=64 H=1 HV=1 varlen=1"}) {
    out.push_back(trial(words, decodes));
    out.back().misaligned = out.size() == 2 ? 1 : 0;
  }
  return out;
}

// The same of pools, in which a run of unknown steps begins again.
std::vector<PoolTrial> pools() {
  std::vector<PoolTrial> out;
  for (const char* words : {"checkpoint=64 ", "checkpoint=64 beta_logit=0 zero_padding=1 ",
                            "mixed=1 checkpoint=64 beta_logit=0 "}) {
    reference::InputSpec spec;
    if (!out.empty()) spec.beta = 1.5;
    PoolTrial one;
    one.trial = trial(std::string("pool=1 H=1 HV=2 K=128 V=128 varlen=1 ") + words,
                      {130, 0, 64, 33, 1, 64, 70}, spec);
    one.slots =
        make_slots({.sequences = 7, .checkpoint_columns = 2, .prefixes = true, .seed = out.size()});
    out.push_back(one);
  }
  return out;
}

// Beside both kinds of kernels before it.
std::vector<Variant> by_rings() {
  return {{"chunk_wgmma", "short_tokens=8 short_by=2"},
          {"chunk_wgmma", "short_tokens=8 short_by=2 stages_at_once=2"},
          {"fused", "short_tokens=8 short_by=2"}};
}

std::vector<Variant> variants() {
  std::vector<Variant> out = every_strategy();
  for (const char* tuning : {"chunk=16", "chunk=32", "chunk=64", "shards=1 threads=256"})
    out.push_back({"chunk", tuning});
  out.push_back({"chunk_wgmma", "stages_at_once=2"});
  for (const char* tuning : {"segment=1", "segment=2 warpgroups=1"})
    out.push_back({"segments", tuning});
  for (const char* tuning : {"groups=2", "groups=3"}) out.push_back({"fused", tuning});
  for (const char* tuning : {"short_tokens=8", "short_tokens=8 stages_at_once=2"})
    out.push_back({"chunk_wgmma", tuning});
  for (const Variant& variant : by_rings()) out.push_back(variant);
  return out;
}

void check_sanitized(const char* title, const std::vector<Trial>& trials,
                     const std::vector<Variant>& by = variants()) {
  if (!on_device()) return;
  const Tally tally = sweep(title, trials, by);
  CHECK(tally.failed == 0);
  CHECK(tally.passed > 0);
}

}  // namespace

TEST_CASE("small runs, every kernel and dtype", "[gpu][sanitize]") {
  check_sanitized("small runs", whole());
}

TEST_CASE("small runs at odd places", "[gpu][sanitize]") {
  check_sanitized("small runs at odd places", placed());
}

TEST_CASE("small runs from and to pools", "[gpu][sanitize]") {
  if (!on_device()) return;
  const Tally tally = sweep_pools("small pools", pools(), variants());
  CHECK(tally.failed == 0);
  CHECK(tally.passed > 0);
}

TEST_CASE("small runs with many short sequences, by rings", "[gpu][sanitize][ring]") {
  check_sanitized("small runs by rings", many(), by_rings());
}

// Poison counts as initialised, so this one leaves workspace and outputs as the driver gave them:
// initcheck then sees what is read before it was written.
TEST_CASE("small runs on untouched memory", "[gpu][initcheck]") {
  const LeaveUntouched untouched;
  check_sanitized("small runs on untouched memory", whole());
}

TEST_CASE("the small runs compose") {
  for (const auto& trials : {whole(), placed(), many()}) {
    const Tally tally = compose_only("small runs", trials, "sm_90a", variants());
    CHECK(tally.failed == 0);
    check_composes("small runs", trials);
  }
  CHECK(compose_only("small pools", plain(pools()), "sm_90a", variants()).failed == 0);
}
