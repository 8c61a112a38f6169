// A stage of their own for short sequences (chunk_wgmma and fused, short_tokens), on the device:
// each sequence is one stage's and no other's, whatever its length, and the next run sees the work
// of both.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/device_memory.hpp"
#include "support/pool_sweep.hpp"
#include "support/rig.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

using Lengths = std::vector<std::int64_t>;

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const char* tuning : {"short_tokens=16", "short_tokens=8", "short_tokens=32 chunk=16",
                             "short_tokens=16 chunk=64", "short_tokens=16 warpgroups=2",
                             "short_tokens=16 load_stages=1", "short_tokens=16 stages_at_once=2"})
    out.push_back({"chunk_wgmma", tuning});
  for (const char* tuning :
       {"groups=4 short_tokens=8", "groups=3 short_tokens=8", "groups=2 short_tokens=8"})
    out.push_back({"fused", tuning});
  return out;
}

// States by rings in shared memory.
std::vector<Variant> by_rings() {
  return {{"chunk_wgmma", "short_tokens=16 short_by=2"},
          {"chunk_wgmma", "short_tokens=16 short_by=2 stages_at_once=2"},
          {"fused", "groups=4 short_tokens=8 short_by=2"}};
}

// About the limits, none, decodes before and after a prefill, long ones alone.
std::vector<Trial> lengths() {
  Lengths decodes(70, 1), after(70, 1);
  decodes.push_back(3000);
  after.insert(after.begin(), 3000);
  std::vector<Trial> out;
  for (const char* words :
       {"K=128 V=128 ", "K=64 V=256 H=1 HV=3 ", "K=64 V=64 qkv=f16 ", "K=100 V=60 ",
        "K=128 V=200 g=f32 H=1 HV=3 ", "gate=softplus beta_logit=0 ",
        "gate=log_decay l2norm=0 cu_seqlens=i32 "})
    for (const Lengths& each : {Lengths{0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 0, 2000},
                                Lengths{2000, 1, 16, 17}, Lengths{16}, Lengths{17}, Lengths{0, 0},
                                Lengths{0, 3, 1}, Lengths{64, 100}, decodes, after})
      out.push_back(trial(std::string("varlen=1 ") + words, each));
  for (const char* state : {"state=bf16 ", "layout=key_first ", "state=bf16 layout=key_first "})
    for (const char* wanted : {"h0=1 ht=1", "h0=1 ht=0", "h0=0 ht=1", "h0=0 ht=0"})
      out.push_back(trial(std::string("varlen=1 ") + state + wanted, {1, 300, 0, 16, 40}));
  return out;
}

// More (sequence, value head, shard) than blocks: blocks take several, of lengths that differ.
std::vector<Trial> many() {
  Lengths uneven, sparse(700, 1);
  for (int n = 0; n < 260; ++n) uneven.push_back(n % 3 == 0 ? n % 17 : 20 + n * 37 % 400);
  for (int n = 0; n < 700; n += 13) sparse[static_cast<std::size_t>(n)] = 17 + n;
  return {trial("varlen=1 HV=4", uneven),
          trial("varlen=1 HV=4 K=128 V=128", uneven),
          trial("varlen=1 HV=4 K=128 V=128 qkv=f16", uneven),
          trial("varlen=1 HV=2", sparse),
          trial("varlen=1 H=70 HV=140 V=128", {40, 1, 300, 90}),
          trial("varlen=1 HV=4 T=200000 N=2000", uneven)};
}

std::vector<Trial> places() {
  std::vector<Trial> out =
      in_every_place(trial("K=128 V=128 HV=4 varlen=1", {300, 0, 3, 16, 129, 1}));
  out.push_back(trial("varlen=1", {0, 0}));
  out.back().tail = 40;
  return out;
}

// Every seventh sequence is padding, a short one and a long one among them.
std::vector<PoolTrial> pools() {
  Lengths many;
  for (int n = 0; n < 90; ++n) many.push_back(n % 4 == 0 ? 1 + n % 18 : 64 + n * 5);
  std::vector<PoolTrial> out;
  for (const Lengths& each : {Lengths{33, 0, 100, 1, 64, 257, 300, 5, 16, 31, 17, 48, 40, 1}, many})
    for (const char* words :
         {"K=128 V=128", "K=128 V=64 checkpoint=64", "h0=0 zero_padding=1 slots=i64",
          "K=128 V=128 checkpoint=128 zero_padding=1", "ht=0 zero_padding=1",
          "qkv=f16 V=100 checkpoint=64 state=bf16 layout=key_first"})
      for (const bool apart : {false, true}) {
        PoolTrial one;
        one.trial = trial(std::string("pool=1 varlen=1 HV=4 ") + words, each);
        SlotsSpec spec;
        spec.sequences = static_cast<int>(each.size());
        spec.checkpoint_columns = one.trial.problem.checkpoint_tokens > 0 ? 5 : 0;
        spec.prefixes = one.trial.problem.initial_state && !apart;
        spec.seed = out.size();
        one.slots = make_slots(spec);
        one.apart = apart && one.trial.problem.final_state;
        one.gap = apart ? 3 : 0;
        out.push_back(one);
      }
  return out;
}

Plan plan_of(const Problem& problem, const Options& options) {
  auto plan = Plan::make(problem, options);
  INFO(plan.status().message());
  REQUIRE(plan);
  return *std::move(plan);
}

struct WithShort {
  Options how;
  int more = 0;  // sequences of one token
};

// With prepare before the chains, and beside them; by pairs; and where lengths decide of all
// kernels, or of all but the short stage.
std::vector<WithShort> with_short() {
  return {{{.strategy = "chunk_wgmma", .tuning = "short_tokens=16 stages_at_once=1"}},
          {{.strategy = "chunk_wgmma", .tuning = "short_tokens=16 stages_at_once=2"}},
          {{.strategy = "chunk_wgmma", .tuning = "short_tokens=16 stages_at_once=2 short_by=2"}},
          {{.strategy = "fused", .tuning = "short_tokens=8"}},
          {{.strategy = "fused", .tuning = "short_tokens=8 short_by=1"}, 60},
          {{.strategy = "fused", .tuning = "short_tokens=8 short_by=2"}, 60},
          {{.strategy = "by_lengths", .tuning = "alike=1 unlike=2"}},
          {{.strategy = "by_lengths", .tuning = "alike=1 unlike=2"}, 60},
          {{.strategy = "by_lengths", .tuning = "alike=2 unlike=3"}},
          {{.strategy = "by_lengths", .tuning = "alike=3 unlike=1"}}};
}

// Every other of them before, the rest after.
Lengths and_more(Lengths lengths, int more) {
  for (int i = 0; i < more; ++i) lengths.insert(i % 2 == 0 ? lengths.begin() : lengths.end(), 1);
  return lengths;
}

void replay_with_other_lengths(const Options& how, int more) {
  const Gpu gpu;
  const launch::Driver& driver = gpu.driver();
  std::vector<Trial> trials;
  for (const Lengths& each :
       {Lengths{1, 16, 17, 0, 3, 5000}, Lengths{5000, 1, 16, 17, 0, 3}, Lengths{1, 1, 1, 1, 1, 1},
        Lengths{0, 0, 5037, 0, 0, 0}, Lengths{839, 840, 839, 840, 839, 840},
        Lengths{0, 0, 0, 0, 0, 0}, Lengths{16, 16, 17, 17, 16, 4000}}) {
    trials.push_back(trial("varlen=1 HV=4 K=128 V=128", and_more(each, more)));
    trials.back().tail = 5037 + more - trials.back().tokens();
    trials.back() = complete(trials.back());
  }
  std::vector<Truth> truths(trials.begin(), trials.end());
  const Plan plan = plan_of(trials[0].problem, how);
  Rig rig(gpu, trials[0], truths[0].tensors());
  CHECK(rig.run(plan) == "");
  const DeviceMemory workspace(gpu, plan.workspace_bytes());
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  must(driver.StreamBeginCapture(gpu.stream(), CU_STREAM_CAPTURE_MODE_GLOBAL), "begin capture");
  CHECK(plan.run(rig.forward(), workspace.data(), workspace.bytes(), gpu.stream()));
  must(driver.StreamEndCapture(gpu.stream(), &graph), "end capture");
  must(driver.GraphInstantiate(&executable, graph, 0), "instantiate");
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < trials.size(); ++i) {
      INFO(to_text(trials[i]));
      const auto& cu_seqlens = truths[i].tensors().cu_seqlens;
      rig.reset();
      must(driver.MemcpyHtoD(reinterpret_cast<CUdeviceptr>(rig.forward().cu_seqlens),
                             cu_seqlens.data(), cu_seqlens.size() * sizeof cu_seqlens[0]),
           "copy cu_seqlens");
      gpu.synchronize();
      must(driver.GraphLaunch(executable, gpu.stream()), "launch the graph");
      gpu.synchronize();
      CHECK(truths[i].judge(rig.outputs()) == "");
    }
  must(driver.GraphExecDestroy(executable), "destroy the graph");
  must(driver.GraphDestroy(graph), "destroy the graph");
}

// The decode's launch overlaps the short stage, which ends long before the chains: it must wait for
// those too.  Then the next run, in which other sequences are long, must wait for the decode.
void run_one_after_another(const Options& how, int more) {
  const Gpu gpu;
  const std::string words = "varlen=1 HV=4 K=128 V=128 ";
  std::vector<Trial> trials;
  for (const Lengths& each : {Lengths{1, 9000, 16, 0, 40}, Lengths{1, 1, 1, 1, 1},
                              Lengths{7000, 3, 17, 2000, 1}, Lengths{2, 1, 0, 1, 1}})
    trials.push_back(trial(words, and_more(each, more)));
  std::vector<Truth> truths;
  std::vector<std::unique_ptr<Rig>> rigs;
  std::vector<Plan> plans;
  for (Trial& one : trials) {
    one.in_place_state = true;
    one = complete(one);
    truths.emplace_back(one);
  }
  for (std::size_t i = 0; i < trials.size(); ++i) {
    rigs.push_back(std::make_unique<Rig>(gpu, trials[i], truths[i].tensors()));
    plans.push_back(plan_of(trials[i].problem, i == 1 ? Options{.strategy = "recurrent"} : how));
  }
  std::size_t bytes = 1;
  for (const Plan& plan : plans) bytes = std::max(bytes, plan.workspace_bytes());
  const DeviceMemory workspace(gpu, bytes);
  // All of them on the first one's states, in place.
  const auto run_all = [&](bool waiting) {
    for (const auto& rig : rigs) rig->reset();
    gpu.synchronize();
    for (int times = 0; times < 3; ++times)
      for (std::size_t i = 0; i < plans.size(); ++i) {
        Forward forward = rigs[i]->forward();
        forward.initial_state = forward.final_state = rigs[0]->forward().final_state;
        CHECK(plans[i].run(forward, workspace.data(), workspace.bytes(), gpu.stream()));
        if (waiting) gpu.synchronize();
      }
    gpu.synchronize();
    std::vector<std::vector<std::byte>> bits;
    for (const auto& rig : rigs) bits.push_back(rig->output_bits());
    return bits;
  };
  const auto one_by_one = run_all(true);
  for (int round = 0; round < 5; ++round)
    CHECK((run_all(false) == one_by_one));  // in brackets: Catch2 would print both
}

}  // namespace

TEST_CASE("short stages compose where they serve", "[strategy]") {
  // Chunks of 64 and two warpgroups have no registers for some, checkpoints no memory for others,
  // and beside prepare only what groups prepare is served: of each tuning this many at least; of
  // pairs, which serve V = 128 and 256 alone, a few.
  const std::vector<std::vector<Trial>> all = {lengths(), many(), places(), plain(pools())};
  std::vector<Variant> both = variants();
  for (const Variant& variant : by_rings()) both.push_back(variant);
  for (const Variant& variant : both) {
    Tally sum;
    for (const auto& trials : all) {
      const Tally tally = compose_only("short stages", trials, "sm_90a", {variant});
      sum.passed += tally.passed;
      sum.refused += tally.refused;
      CHECK(tally.failed == 0);
    }
    INFO(to_text(variant) << ": " << sum.passed << " passed, " << sum.refused << " refused");
    CHECK(sum.passed >= (variant.strategy == "fused" ? 10 : sum.refused));
  }
  CHECK(compose_only("short stage", plain(pools()), "sm_90a", {variants()[0]}).refused == 0);
}

TEST_CASE("a short stage at every length", "[gpu][short]") {
  check_on_device("short lengths", lengths(), variants());
}

TEST_CASE("a short stage beside more long sequences than blocks", "[gpu][short]") {
  check_on_device("short many", many(), variants());
}

TEST_CASE("a short stage in odd places", "[gpu][short]") {
  check_on_device("short places", places(), variants());
}

TEST_CASE("a short stage from and to pools", "[gpu][short]") {
  if (!on_device()) return;
  CHECK(sweep_pools("short pools", pools(), variants()).failed == 0);
}

TEST_CASE("short sequences by rings", "[gpu][ring]") {
  check_on_device("ring lengths", lengths(), by_rings());
  check_on_device("ring many", many(), by_rings());
  check_on_device("ring places", places(), by_rings());
}

TEST_CASE("short sequences by rings from and to pools", "[gpu][ring]") {
  if (!on_device()) return;
  CHECK(sweep_pools("ring pools", pools(), by_rings()).failed == 0);
}

TEST_CASE("a sequence changes its stage between replays of a graph", "[gpu][short][ring]") {
  if (!on_device()) return;
  for (const auto& [how, more] : with_short()) replay_with_other_lengths(how, more);
}

TEST_CASE("what follows a short stage sees the long sequences' states", "[gpu][short][ring]") {
  if (!on_device()) return;
  for (const auto& [how, more] : with_short()) run_one_after_another(how, more);
}
