// Every strategy of the table, composed and compiled for devices that need not be here: pairwise
// over what a problem may be, in the default tunings (no spills) and in forced ones.  Of the
// kernels of a strategy's rows those compile that bring a pair that none before had
// (new_kernels.hpp).  Two halves, by strategy, are ctest's strategy.sweep and
// strategy.sweep_hopper.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"
#include "problem/problem.hpp"
#include "strategy/table.hpp"
#include "support/catch.hpp"
#include "support/new_kernels.hpp"
#include "support/pairwise.hpp"
#include "support/scratch.hpp"

using namespace kda;
using test::Factor;
using test::NewOnes;

namespace {

constexpr const char* kTargets[] = {"sm_89", "sm_90a"};

// TABLE: what kernels are specialised on, as words of a problem.
const std::vector<Factor> kProblems = {
    {"K=128 V=128", "K=64 V=64", "K=64 V=128", "K=128 V=64", "K=16 V=16", "K=60 V=100",
     "K=100 V=60", "K=192 V=128", "K=256 V=256"},
    {"qkv=bf16", "qkv=f16", "qkv=f32"},
    {"g=bf16", "g=f32", "g=f16"},
    {"beta=bf16", "beta=f32", "beta=f16"},
    {"H=4 HV=4", "H=4 HV=16", "H=2 HV=16"},
    {"gate=bounded", "gate=softplus", "gate=log_decay"},
    {"beta_logit=1", "beta_logit=0", "beta_logit=1 neg_eigval=1", "beta_logit=0 beta_most_1=1"},
    {"l2norm=1", "l2norm=0", "l2norm=0 qk_normalized=1"},
    {"h0=1 ht=1", "h0=0 ht=0", "h0=1 ht=0", "h0=0 ht=1", "h0=1 ht=1 pool=1 zero_padding=1",
     "h0=1 ht=1 pool=1 drafts=1 slots=i64", "h0=1 ht=1 pool=1 checkpoint=64",
     "h0=0 ht=1 pool=1 checkpoint=128 slots=i64"},
    {"state=f32 layout=value_first", "state=bf16 layout=key_first", "state=f32 layout=key_first",
     "state=bf16 layout=value_first"},
    {"varlen=0", "varlen=1 cu_seqlens=i64", "varlen=1 cu_seqlens=i32"},
};
constexpr const char* kSizes = "T=4096 N=4 ";

// TABLE: strategies that have the others' kernels, which are compiled for themselves, guarded: a
// few problems of each do, of which the pairs above hold too little at once.
struct Guarded {
  const char* strategy;
  const char* words;
};
constexpr Guarded kGuarded[] = {
    {"unit_steps", "H=4 HV=4 beta_logit=0 g=f32 beta=f32 gate=log_decay h0=1 ht=1"},
    {"unit_steps", "H=32 beta_logit=0 K=64 V=64 varlen=1 state=bf16 layout=key_first h0=1 ht=1"},
    {"unit_steps", "H=64 beta_logit=0 h0=0 ht=1"},
    {"unit_steps", "H=4 HV=16 beta_logit=0 K=64 V=128 gate=softplus h0=1 ht=0"},
    {"unit_steps", "H=64 l2norm=0 h0=1 ht=1"},
    {"unit_steps", "H=64 l2norm=0 beta_logit=0 g=f32 gate=log_decay varlen=1 h0=1 ht=1"},
    {"unit_steps", "H=24 l2norm=0 K=64 V=64 gate=softplus h0=1 ht=1"},
    {"unit_steps", "H=64 beta_logit=0 g=f32 beta=f32 gate=log_decay varlen=1 h0=1 ht=1 pool=1"},
    {"unit_steps",
     "H=32 beta_logit=0 K=64 V=64 state=bf16 h0=1 ht=1 pool=1 checkpoint=64 slots=i64"},
    {"unit_steps", "H=16 beta_logit=0 K=256 V=256 h0=1 ht=1"},
    {"by_lengths", "H=16 varlen=1 h0=1 ht=1"},
    {"by_lengths", "H=4 HV=16 K=64 V=64 varlen=1 cu_seqlens=i32 g=f32 gate=softplus h0=0 ht=1"},
    {"by_lengths", "H=8 varlen=1 h0=1 ht=1 pool=1 checkpoint=64 state=bf16 slots=i64"},
    {"by_lengths", "H=16 K=256 V=128 varlen=1 layout=key_first h0=1 ht=0"},
    {"by_gates", "H=8 h0=1 ht=1"},
    {"by_gates", "H=2 HV=4 K=64 V=256 state=bf16 layout=key_first h0=0 ht=1"},
    {"by_gates", "H=1 HV=2 beta_logit=0 beta_most_1=1 l2norm=0 qk_normalized=1 h0=1 ht=0"},
};
bool has_others_kernels(const strategy::Strategy& strategy) {
  return std::any_of(std::begin(kGuarded), std::end(kGuarded), [&](const Guarded& each) {
    return std::string_view(strategy.name) == each.strategy;
  });
}

// TABLE: the same of problems with committed tokens, which strategy recurrent alone serves.
const std::vector<Factor> kCommitted = {
    {"K=128 V=128", "K=64 V=64", "K=64 V=128", "K=128 V=64", "K=16 V=16", "K=60 V=100",
     "K=192 V=128", "K=256 V=256"},
    {"T=512 N=64 H=32", "T=64 N=64 H=32", "T=4096 N=4 H=4 HV=16", "T=6 N=1 H=2"},
    {"qkv=bf16", "qkv=f16", "qkv=f32"},
    {"g=bf16 beta=f32", "g=f32 beta=bf16", "g=f16 beta=f16"},
    {"gate=bounded", "gate=softplus", "gate=log_decay beta_logit=0", "gate=logsigmoid l2norm=0"},
    {"h0=1 ht=1", "h0=0 ht=1", "h0=1 ht=1 pool=1 zero_padding=1", "h0=1 ht=1 pool=1 slots=i64"},
    {"state=f32 layout=value_first", "state=bf16 layout=key_first", "state=f32 layout=key_first",
     "state=bf16 layout=value_first"},
    {"varlen=0", "varlen=1 cu_seqlens=i64", "varlen=1 cu_seqlens=i32"},
};

// TABLE: decodes, drafts and short prompts from states in [K, V].
const std::vector<Factor> kKeyFirst = {
    {"T=1 N=1", "T=8 N=8", "T=64 N=64", "T=256 N=64", "T=512 N=16"},
    {"K=128 V=128", "K=64 V=64", "K=100 V=100", "K=256 V=256", "K=128 V=32"},
    {"state=f32", "state=bf16"},
    {"", "pool=1", "pool=1 drafts=1", "pool=1 committed=1", "pool=1 checkpoint=64"},
};

Problem problem_of(const std::string& words) {
  const auto parsed = problem::parse(words);
  INFO(parsed.status().message());
  REQUIRE(parsed);
  return *parsed;
}

void check_kernels(const std::vector<program::Kernel>& kernels, const device::Device& device,
                   bool spills_allowed) {
  for (const program::Kernel& kernel : kernels) {
    INFO(kernel.path << ", stage " << kernel.stage.name);
    const compile::Resources& r = kernel.resources;
    CHECK(r.registers > 0);
    CHECK(r.static_shared_bytes + kernel.stage.shared_bytes <= device.shared_per_block);
    CHECK(static_cast<unsigned>(r.registers) * kernel.stage.threads <= 65536);
    if (!spills_allowed) CHECK(r.spill_bytes == 0);
    CHECK(r.serialized_wgmma == 0);
  }
}

void check_plan(const Plan::Impl& plan) {
  INFO(plan::describe(plan));
  check_kernels(plan.program.kernels, plan.device, false);
}

// One problem in one forced tuning.
struct Forced {
  std::string problem, target, strategy, tuning;
};

void check_forced(test::NewKernels& kernels, const std::vector<Forced>& wanted,
                  bool spills_allowed) {
  std::vector<test::Wanted> all;
  for (const Forced& each : wanted) {
    all.push_back({problem_of(kSizes + each.problem), each.target, each.strategy, each.tuning});
  }
  const std::vector<NewOnes> made = kernels.make(all);
  for (std::size_t i = 0; i < made.size(); ++i) {
    INFO(wanted[i].strategy << " for " << wanted[i].target << ": " << wanted[i].problem << ": "
                            << wanted[i].tuning);
    INFO(made[i].tuning << ": " << made[i].status.message());
    CHECK(made[i].status);
    check_kernels(made[i].kernels, made[i].device, spills_allowed);
  }
}

void check_default(const std::vector<Forced>& wanted) {
  const test::Scratch cache;
  test::NewKernels kernels(cache.path());
  check_forced(kernels, wanted, false);
}

// Whether the planner takes it; nothing is compiled.  A refusal says that the combination does not
// fit, and nothing else.
bool supported(const Forced& forced) {
  const Status status =
      supports(problem_of(kSizes + forced.problem),
               {.target = forced.target, .strategy = forced.strategy, .tuning = forced.tuning});
  INFO(status.message());
  CHECK((status || status.code() == Code::unsupported));
  return status.ok();
}

// A few (problem, target) that the strategy takes, spread over all that it might.
std::vector<Forced> taken_by(const char* strategy) {
  std::vector<Forced> taken;
  for (const char* sizes : {"K=128 V=128", "K=64 V=64", "K=100 V=60", "K=256 V=256"}) {
    for (const char* dtype : {"qkv=bf16", "qkv=f32"}) {
      for (const char* options :
           {"h0=1 ht=1 varlen=1", "gate=log_decay", "gate=log_decay beta_logit=0", "h0=1"}) {
        for (const char* target : kTargets) {
          Forced forced{std::string("H=4 HV=8 ") + sizes + " " + dtype + " " + options, target,
                        strategy, ""};
          if (supported(forced)) taken.push_back(std::move(forced));
        }
      }
    }
  }
  constexpr std::size_t kMost = 3;  // odd: steps over the pairs of options and targets
  std::vector<Forced> few;
  for (std::size_t i = 0; i < std::min(kMost, taken.size()); ++i) {
    few.push_back(taken[i * taken.size() / std::min(kMost, taken.size())]);
  }
  return few;
}

// Every chunk length that there is, reachable at every size a model uses.
void add_chunk_lengths(const strategy::Strategy& strategy, std::vector<Forced>& wanted) {
  for (const tunable::Row& tunable : strategy.space()) {
    if (tunable.name != "chunk") continue;
    for (const int chunk : tunable.values) {
      bool first = false;  // of the targets: of a strategy for both, sizes take turns
      for (const char* sizes : {"K=64 V=64", "K=64 V=128", "K=128 V=128", "K=128 V=64"}) {
        first = !first;
        for (const char* target : kTargets) {
          const Forced forced{std::string("H=4 h0=1 ht=1 ") + sizes, target, strategy.name,
                              "chunk=" + std::to_string(chunk)};
          // The strategy for every device may not refuse; one for some devices may.
          const bool taken = supported(forced);
          if (forced.strategy == "chunk") CHECK(taken);
          const bool its_turn = forced.strategy != "chunk" || (target == kTargets[0]) == first;
          if (taken && its_turn) wanted.push_back(forced);
        }
      }
    }
  }
}

// Of strategies for both targets, or of those for Hopper, whose templates are others.
bool is_in(const strategy::Strategy& strategy, bool everywhere) {
  return everywhere == supports(problem_of(std::string(kSizes) + "H=4"),
                                {.target = kTargets[0], .strategy = strategy.name})
                           .ok();
}

// Defaults for every kind of problem.
void sweep_defaults(test::NewKernels& kernels, bool everywhere) {
  // The target is one of the factors: a strategy for several compiles each row for one of them.
  std::vector<Factor> factors = kProblems;
  factors.emplace_back(std::begin(kTargets), std::end(kTargets));
  const std::vector<test::Row> rows = test::pairwise(factors);
  for (const strategy::Strategy* strategy : strategy::table()) {
    if (!is_in(*strategy, everywhere)) continue;
    std::vector<std::string> words;
    std::vector<test::Wanted> wanted;
    const auto want = [&](const std::string& problem, const char* target) {
      words.push_back(problem);
      wanted.push_back({problem_of(kSizes + problem), target, strategy->name, ""});
    };
    for (const test::Row& row : rows) {
      if (has_others_kernels(*strategy)) break;
      const std::string problem = test::words_of(kProblems, {row.begin(), row.end() - 1});
      for (std::size_t t = 0; t < std::size(kTargets); ++t) {
        if (!everywhere || t == row.back()) want(problem, kTargets[t]);
      }
    }
    for (const Guarded& each : kGuarded) {
      if (std::string_view(strategy->name) != each.strategy) continue;
      for (const char* target : kTargets) want(each.words, target);
    }
    const std::vector<NewOnes> made = kernels.make(wanted);
    std::set<std::string> served;
    for (std::size_t i = 0; i < made.size(); ++i) {
      INFO(strategy->name << " for " << wanted[i].target << ": " << words[i]);
      INFO(made[i].tuning << ": " << made[i].status.message());
      // A strategy may leave kinds of problems to others, but says so.
      if (made[i].status.code() == Code::unsupported) continue;
      CHECK(made[i].status);
      check_kernels(made[i].kernels, made[i].device, false);
      served.insert(wanted[i].target);
    }
    INFO(strategy->name);
    CHECK(served == (everywhere ? std::set<std::string>{std::begin(kTargets), std::end(kTargets)}
                                : std::set<std::string>{kTargets[1]}));
  }
}

// Forced tunings, and every chunk length at every size a model uses.
void sweep_tunings(test::NewKernels& kernels, bool everywhere) {
  std::vector<Forced> wanted;
  for (const strategy::Strategy* strategy : strategy::table()) {
    if (!is_in(*strategy, everywhere)) continue;
    add_chunk_lengths(*strategy, wanted);
    std::vector<Forced> taken = taken_by(strategy->name);
    INFO(strategy->name);
    REQUIRE_FALSE(taken.empty());
    if (has_others_kernels(*strategy)) taken.resize(1);
    std::vector<Factor> factors{Factor(taken.size())};  // the first stands for taken
    std::size_t all = taken.size();
    for (const tunable::Row& tunable : strategy->space()) {
      Factor& factor = factors.emplace_back();
      for (const int value : tunable.values) {
        factor.push_back(tunable.name + "=" + std::to_string(value));
      }
      all *= factor.size();
    }
    std::set<std::string> met;
    for (const test::Row& row : test::pairwise(factors)) {
      Forced forced = taken[row[0]];
      // Of tunables that do not fit together, the last ones are left to the planner.
      for (std::size_t named = factors.size(); named > 1; --named) {
        forced.tuning.clear();
        for (std::size_t f = 1; f < named; ++f) forced.tuning += factors[f][row[f]] + " ";
        if (!supported(forced)) continue;
        if (met.insert(forced.target + forced.problem + forced.tuning).second) {
          wanted.push_back(forced);
        }
        break;
      }
    }
    // A problem's own ways alone can be forced on strategies that have others' kernels, and of
    // these sizes two segments on by_gates.
    const std::size_t least = strategy->goes_by_gates ? 2 : has_others_kernels(*strategy) ? 3 : 5;
    CHECK(met.size() >= std::min(least, all));
  }
  check_forced(kernels, wanted, true);
}

// Defaults and others at once, as kernels that defaults have are not new to what is forced; the
// strategies in two halves, for two processes.
void sweep(bool everywhere) {
  const test::Scratch cache;
  test::NewKernels kernels(cache.path());
  sweep_defaults(kernels, everywhere);
  sweep_tunings(kernels, everywhere);
}

}  // namespace

TEST_CASE("pairwise rows hold every pair", "[strategy]") {
  const std::vector<Factor> factors = {{"a", "b", "c"}, {"d"}, {"e", "f"}, {"g", "h", "i", "j"}};
  const auto rows = test::pairwise(factors);
  CHECK(rows.size() < 3 * 2 * 4);
  for (std::size_t a = 0; a < factors.size(); ++a) {
    for (std::size_t b = a + 1; b < factors.size(); ++b) {
      std::set<std::pair<std::size_t, std::size_t>> met;
      for (const auto& row : rows) met.emplace(row[a], row[b]);
      CHECK(met.size() == factors[a].size() * factors[b].size());
    }
  }
}

// The bug: 64 heads of K = 256 in f16 spilled 2700 bytes by chunk, K = 192 some, and K = 100 in f32
// by recurrent on sm_89; the rows above hold pairs of values, and these are more at once.
TEST_CASE("kinds of problems whose default tunings spilled", "[strategy][compile]") {
  const std::string f16 = "V=128 qkv=f16 H=4 HV=16 l2norm=0 h0=1 ht=0 varlen=1 state=bf16 ";
  const std::string f32 = "K=100 V=60 qkv=f32 g=f32 beta=f32 H=4 HV=16 gate=softplus l2norm=0 ";
  const std::vector<Forced> wanted = {
      {f16 + "K=192 beta_logit=0 beta_most_1=1", "sm_90a", "chunk", ""},
      {f16 + "K=192", "sm_89", "chunk", ""},
      {f16 + "K=256 pool=1", "sm_89", "chunk", ""},
      {f16 + "K=256", "sm_90a", "chunk", ""},
      {f32 + "varlen=1 cu_seqlens=i32 pool=1 zero_padding=1 h0=1 ht=1", "sm_89", "recurrent", ""}};
  check_default(wanted);
}

TEST_CASE("recurrent's default tunings compile without spills for committed tokens",
          "[strategy][compile]") {
  const test::Scratch cache;
  // The target is a factor here, too.
  std::vector<Factor> factors = kCommitted;
  factors.emplace_back(std::begin(kTargets), std::end(kTargets));
  std::map<std::string, std::vector<std::string>> words;  // by target
  for (const test::Row& row : test::pairwise(factors)) {
    words[factors.back()[row.back()]].push_back(
        test::words_of(kCommitted, {row.begin(), row.end() - 1}) + " committed=1");
  }
  REQUIRE(words.size() == std::size(kTargets));
  for (const auto& [target, its_words] : words) {
    std::vector<Problem> problems;
    for (const std::string& each : its_words) problems.push_back(problem_of(each));
    const auto plans = plan::make_all(problems, {.target = target, .cache_dir = cache.path()});
    for (std::size_t i = 0; i < plans.size(); ++i) {
      INFO(target << ": " << its_words[i] << ": " << plans[i].status().message());
      REQUIRE(plans[i]);
      check_plan(**plans[i]);
    }
  }
}

// The bug: the default for one sequence with its state in [K, V] spilled 72 bytes.
TEST_CASE("recurrent's default tunings compile without spills for states in [K, V]",
          "[strategy][compile]") {
  const test::Scratch cache;
  std::vector<Factor> factors = kKeyFirst;
  factors.emplace_back(std::begin(kTargets), std::end(kTargets));
  const std::vector<test::Row> rows = test::pairwise(factors);
  for (const std::string& target : factors.back()) {
    std::vector<Problem> problems;
    std::vector<std::string> words;
    for (const test::Row& row : rows) {
      if (factors.back()[row.back()] != target) continue;
      words.push_back(test::words_of(kKeyFirst, {row.begin(), row.end() - 1}) +
                      " H=32 layout=key_first h0=1 ht=1");
      problems.push_back(problem_of(words.back()));
    }
    CHECK(!problems.empty());
    const auto plans = plan::make_all(
        problems, {.target = target, .cache_dir = cache.path(), .strategy = "recurrent"});
    for (std::size_t i = 0; i < plans.size(); ++i) {
      INFO(target << ": " << words[i] << ": " << plans[i].status().message());
      REQUIRE(plans[i]);
      check_plan(**plans[i]);
    }
  }
}

// Defaults of long sequences alone, which no size above has.
TEST_CASE("states carried into segments compile without spills", "[strategy][compile]") {
  const std::string beside = "segment=16 warpgroups=2 load_stages=6 segments=2";
  const std::string alone = "segment=16 warpgroups=1 load_stages=6 segments=2";
  const std::string pairs = "segments=2 otherwise=3 carries=2";
  const std::vector<Forced> wanted = {
      {"H=2 h0=1 ht=1", "sm_90a", "segments", beside},
      {"H=2 h0=1 ht=1 state=bf16 layout=key_first", "sm_90a", "segments", beside},
      {"H=2 K=64 V=64 h0=1 ht=1 g=f32 gate=log_decay", "sm_90a", "segments", alone},
      {"H=2 h0=1 ht=1 pool=1 zero_padding=1", "sm_90a", "segments", beside},
      {"H=2 h0=1 ht=1", "sm_90a", "by_gates", pairs},
      {"H=1 HV=2 V=256 h0=0 ht=1 state=bf16", "sm_90a", "by_gates", pairs},
      {"H=2 K=64 h0=1 ht=0 layout=key_first", "sm_90a", "by_gates", pairs},
      {"H=2 h0=1 ht=1 layout=key_first l2norm=0 qk_normalized=1", "sm_90a", "by_gates", pairs}};
  check_default(wanted);
}

TEST_CASE("the problems of kda_prefill_f32, and its gate, compile without spills",
          "[strategy][compile]") {
  const std::string original = "qkv=f32 g=f32 beta=f32 gate=logsigmoid beta_logit=0 H=8 ";
  const std::string logits = "gate=logsigmoid H=8 h0=1 ht=1 ";
  const std::vector<Forced> wanted = {{original + "K=64 V=64 wy=32", "sm_89", "chunk", ""},
                                      {original + "K=64 V=64 wy=32", "sm_90a", "chunk", ""},
                                      {original + "K=128 V=128 wy=64", "sm_89", "chunk", ""},
                                      {original + "K=128 V=64 wy=64", "sm_90a", "chunk", ""},
                                      {original + "K=64 V=128 wy=64", "sm_90a", "chunk", ""},
                                      {original + "K=128 V=128 wy=32", "sm_89", "chunk", ""},
                                      {original + "K=64 V=64", "sm_90a", "recurrent", ""},
                                      {logits + "wy=32", "sm_89", "chunk", ""},
                                      {logits, "sm_90a", "recurrent", ""},
                                      {logits + "wy=32", "sm_90a", "chunk_wgmma", ""},
                                      {logits, "sm_90a", "chunk_wgmma", ""},
                                      {logits, "sm_90a", "segments", ""}};
  check_default(wanted);
}

TEST_CASE("every problem has a default plan on every target", "[strategy]") {
  for (const auto& row : test::pairwise(kProblems)) {
    const std::string words = test::words_of(kProblems, row);
    for (const char* target : kTargets) {
      const Status status = supports(problem_of(kSizes + words), {.target = target});
      INFO(target << ": " << words << ": " << status.message());
      CHECK(status);
    }
  }
}

TEST_CASE("strategies for all devices compile, and default tunings without spills",
          "[strategy][compile][sweep][all_devices]") {
  sweep(true);
}

TEST_CASE("strategies for Hopper compile, and default tunings without spills",
          "[strategy][compile][sweep][hopper]") {
  sweep(false);
}

TEST_CASE("decodes of a pool compile without spills", "[strategy][compile]") {
  const test::Scratch cache;
  const std::vector<Factor> factors = {{"K=128 V=128", "K=100 V=60", "K=128 V=256"},
                                       {"qkv=bf16 beta=f32", "qkv=f16", "qkv=f32"},
                                       {"g=bf16", "g=f32", "g=f16"},
                                       {"gate=bounded", "gate=log_decay beta_logit=0",
                                        "gate=softplus neg_eigval=1", "gate=logsigmoid"},
                                       {"l2norm=1", "l2norm=0"},
                                       {"", "zero_padding=1"},
                                       {"slots=i32", "slots=i64"}};
  std::vector<Problem> problems;
  for (const test::Row& row : test::pairwise(factors)) {
    problems.push_back(problem_of(test::words_of(factors, row) + " T=8 N=8 H=32 pool=1 h0=1 ht=1"));
  }
  const auto plans = plan::make_all(
      problems, {.target = "sm_90a", .cache_dir = cache.path(), .strategy = "recurrent"});
  for (const auto& plan : plans) {
    INFO(plan.status().message());
    REQUIRE(plan);
    check_plan(**plan);
  }
}
