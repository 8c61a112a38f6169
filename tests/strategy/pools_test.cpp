// States in pools through every strategy: decodes, drafts, checkpoints, prefixes and padding.
#include <algorithm>
#include <string>

#include "problem/problem.hpp"
#include "support/pairwise.hpp"
#include "support/pool_sweep.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

constexpr std::int64_t kMostElements = 4 << 20;  // of the states a trial reads and keeps

PoolTrial pool_trial(const std::string& words, std::vector<std::int64_t> lengths,
                     SlotsSpec spec = {}) {
  PoolTrial out;
  spec.sequences = static_cast<int>(lengths.size());
  out.trial = trial("pool=1 " + words, std::move(lengths));
  out.slots = make_slots(spec);
  return out;
}

// TABLE: what a decode may be.
const std::vector<Factor> kDecodes = {
    {"K=128 V=128", "K=64 V=64", "K=100 V=100", "K=256 V=256", "K=64 V=256", "K=128 V=100"},
    {"H=1 HV=1", "H=2 HV=4", "H=16 HV=16", "H=8 HV=32", "H=64 HV=64"},
    {"N=1", "N=2", "N=7", "N=64", "N=512"},
    {"T=1", "T=2", "T=3", "T=4", "T=8"},
    {"qkv=bf16", "qkv=f16", "qkv=f32"},
    {"g=bf16", "g=f32", "g=f16"},
    {"beta=bf16", "beta=f32", "beta=f16"},
    {"gate=bounded", "gate=softplus", "gate=log_decay"},
    {"beta_logit=1", "beta_logit=0", "beta_logit=1 neg_eigval=1", "beta_logit=0 beta_most_1=1"},
    {"l2norm=1", "l2norm=0", "l2norm=0 qk_normalized=1"},
    {"state=f32 layout=value_first", "state=bf16 layout=value_first", "state=f32 layout=key_first",
     "state=bf16 layout=key_first"},
    {"slots=i32", "slots=i64"},
    {"drafts=0", "drafts=1", "committed=1"},
    {"zero_padding=0", "zero_padding=1"},
    {"varlen=0", "varlen=1 cu_seqlens=i32"},
};

int number(const std::string& word) { return std::stoi(word.substr(2)); }

std::vector<PoolTrial> decodes() {
  std::vector<PoolTrial> out;
  for (const Row& row : pairwise(kDecodes)) {
    const auto word = [&](std::size_t factor) { return kDecodes[factor][row[factor]]; };
    const int tokens = number(word(3));
    int sequences = number(word(2));
    std::string words;
    for (std::size_t factor = 0; factor < kDecodes.size(); ++factor)
      if (factor != 2 && factor != 3) words += word(factor) + " ";
    const bool drafts = word(12) == "drafts=1";
    const auto problem = problem::parse(words);
    REQUIRE(problem);
    const std::int64_t state = problem::slot_elements(*problem) * (drafts ? tokens : 1);
    sequences = static_cast<int>(std::clamp<std::int64_t>(kMostElements / state, 1, sequences));

    SlotsSpec spec;
    spec.columns = drafts ? tokens + static_cast<int>(out.size() % 2) : 1;
    spec.accepted = drafts && out.size() % 3 != 0;
    spec.prefixes = out.size() % 2 == 0;
    spec.seed = out.size();
    std::vector<std::int64_t> lengths(sequences, tokens);
    if (word(14) != "varlen=0")  // 1 .. T tokens, and now and then none
      for (int n = 0; n < sequences; ++n) lengths[n] = n % 5 == 4 ? 0 : 1 + n % tokens;
    PoolTrial one = pool_trial(words, lengths, spec);
    one.gap = out.size() % 4 == 1 ? 3 : out.size() % 4 == 3 ? 64 : 0;
    one.row_gap = static_cast<int>(out.size() % 3);
    one.apart = out.size() % 5 == 2;
    one.trial.misaligned = static_cast<int>(out.size() % 6 == 5);
    one.trial.layout = out.size() % 4 == 2 ? Layout::sliced : Layout::contiguous;
    out.push_back(one);
  }
  return out;
}

std::vector<PoolTrial> checkpoints() {
  std::vector<PoolTrial> out;
  for (const char* type : {"bf16", "f32"})
    for (const char* size : {"K=128 V=128 ", "K=64 V=100 ", "K=60 V=64 "})
      for (const char* state : {"state=f32 layout=value_first ", "state=bf16 layout=value_first ",
                                "state=f32 layout=key_first ", "state=bf16 layout=key_first "})
        for (const char* every : {"checkpoint=64 ", "checkpoint=128 slots=i64 zero_padding=1 "}) {
          SlotsSpec spec;
          spec.checkpoint_columns = 3;
          spec.prefixes = out.size() % 2 == 0;
          spec.seed = out.size();
          const std::string words = all_types(type) + size + state + every + "HV=4 ";
          // 4 * 64 is past the columns of 300 tokens; the seventh sequence is padding.
          PoolTrial one = pool_trial(words + "varlen=1", {64, 300, 0, 1, 129, 63, 70, 128}, spec);
          one.gap = out.size() % 3 == 1 ? 5 : 0;
          one.row_gap = static_cast<int>(out.size() % 2);
          out.push_back(one);
          out.push_back(pool_trial(words + "h0=" + (out.size() % 4 == 1 ? "0" : "1"), {192, 192},
                                   {.checkpoint_columns = 3, .seed = out.size()}));
        }
  // Where no chunk fits, or a smaller one does.
  out.push_back(pool_trial("checkpoint=100", {450}, {.checkpoint_columns = 4}));
  out.push_back(pool_trial("checkpoint=80", {450}, {.checkpoint_columns = 5}));
  return out;
}

// What prefill does with indices alone.
std::vector<PoolTrial> prefills() {
  std::vector<PoolTrial> out;
  for (const char* type : kTypes)
    for (const char* wanted : {"h0=1 ht=1 ", "h0=1 ht=0 ", "h0=0 ht=1 zero_padding=1 "})
      for (const char* shape : {"K=128 V=128 HV=4 ", "K=256 V=64 ", "K=33 V=40 HV=6 "}) {
        SlotsSpec spec;
        spec.prefixes = std::string(wanted).find("h0=1") == 0;
        spec.seed = out.size();
        out.push_back(pool_trial(all_types(type) + shape + wanted + "varlen=1",
                                 {33, 0, 100, 1, 64, 257, 20, 5, 16, 31, 32, 48, 40, 90}, spec));
        out.push_back(pool_trial(all_types(type) + shape + wanted, {75, 75, 75}, spec));
      }
  return out;
}

void check_pools(const char* title, const std::vector<PoolTrial>& trials) {
  if (!on_device()) return;
  const Tally tally = sweep_pools(title, trials);
  CHECK(tally.failed == 0);
  CHECK(tally.passed >= static_cast<int>(trials.size()));
}

void check_pools_compose(const char* title, const std::vector<PoolTrial>& trials) {
  const Tally serves_all = compose_only(title, plain(trials), "sm_90a", {{"recurrent", ""}});
  CHECK(serves_all.failed == 0);
  CHECK(serves_all.passed == static_cast<int>(trials.size()));
  CHECK(compose_only(title, plain(trials), "sm_90a").failed == 0);
}

}  // namespace

TEST_CASE("decodes from pools, on the device", "[gpu]") { check_pools("pool decodes", decodes()); }
TEST_CASE("checkpoints to pools, on the device", "[gpu]") {
  check_pools("pool checkpoints", checkpoints());
}
TEST_CASE("prefills from and to pools, on the device", "[gpu]") {
  check_pools("pool prefills", prefills());
}
TEST_CASE("pools compose") {
  check_pools_compose("pool decodes", decodes());
  check_pools_compose("pool checkpoints", checkpoints());
  check_pools_compose("pool prefills", prefills());
}
TEST_CASE("every trial's pool is read and written somewhere, and spared somewhere") {
  for (const PoolTrial& given : checkpoints()) {
    const PoolTrial one = complete(given);
    const Problem& p = one.trial.problem;
    int started = 0;
    for (std::size_t n = 0; n < one.trial.lengths.size(); ++n)
      started += reference::start_of(p, one.slots, static_cast<int>(n)) != reference::kPadding;
    INFO(to_text(one));
    CHECK(2 * started >= static_cast<int>(one.trial.lengths.size()));
    CHECK(one.slots.slots > started * (1 + one.slots.checkpoint_columns));
  }
}
