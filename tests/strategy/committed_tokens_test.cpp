// The final state after some of a sequence's tokens, whatever the count and wherever states lie;
// what pools add to that is pools_test's.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "strategy/table.hpp"
#include "support/part.hpp"
#include "support/rig.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;

namespace {

constexpr const char* kStates[] = {"state=f32 layout=value_first ",
                                   "state=bf16 layout=value_first ", "state=f32 layout=key_first ",
                                   "state=bf16 layout=key_first "};

const std::vector<Variant> kVariants = {{"", ""},
                                        {"recurrent", ""},
                                        {"recurrent", "stages=1"},
                                        {"recurrent", "stages=2 threads=128 lanes=16"},
                                        {"recurrent", "lanes=32 threads=256"}};

// Every sequence commits `count`.
Trial committing(std::int64_t count, const std::string& words, std::vector<std::int64_t> lengths) {
  reference::InputSpec inputs;
  inputs.committed_tokens = count;
  return trial("committed=1 " + words, std::move(lengths), inputs);
}

std::vector<Trial> committed() {
  std::vector<Trial> out;
  for (const std::string state : kStates) {
    // From below zero to past the length: stages hold up to four tokens.
    for (const std::int64_t count : {-9, -1, 0, 1, 2, 3, 4, 5, 8, 9, 10, 1000})
      out.push_back(committing(count, state + "K=128 V=128 HV=4 slots=i64", {9, 9, 9}));
    for (const std::int64_t count : {0, 1, 4, 7})
      out.push_back(committing(count, state + "K=60 V=100 HV=6", {0, 1, 4, 5, 70, 2, 0, 3}));
    // Each sequence commits what its seed draws, from none of its tokens to all.
    for (const char* type : kTypes)
      for (const std::string gate :
           {"gate=bounded ", "gate=softplus ", "gate=log_decay ", "gate=logsigmoid "}) {
        Trial one = trial("committed=1 " + all_types(type) + state + gate + "HV=4",
                          {1, 2, 3, 4, 5, 6, 7, 8, 0, 33, 100});
        one.inputs.seed = out.size();
        one.in_place_state = out.size() % 2 == 0;
        one.misaligned = static_cast<int>(out.size() % 3 == 1);
        one.layout = out.size() % 4 == 1 ? Layout::gapped : Layout::contiguous;
        one.tail = out.size() % 5 == 3 ? 6 : 0;
        out.push_back(one);
      }
    out.push_back(committing(0, state + "h0=0", {5, 5}));
    out.push_back(committing(3, state + "h0=0 K=256 V=256", {5, 5}));
    out.push_back(committing(1, state + "K=33 V=40 varlen=1 mixed=1", {1, 1, 300, 1}));
  }
  return out;
}

using Bits = std::vector<std::byte>;

// A trial's run in which only the counts change.
struct Counted {
  explicit Counted(const Trial& given)
      : trial(complete(given)),
        tensors(reference::make_tensors(trial.problem, trial.tokens(),
                                        reference::cu_seqlens_of(trial.lengths), trial.inputs)),
        rig(gpu, trial, tensors),
        plan(plan_of(trial.problem, "recurrent")) {}

  void set(const std::vector<std::int32_t>& counts) const {
    const auto to = reinterpret_cast<CUdeviceptr>(rig.forward().committed_tokens);
    must(gpu.driver().MemcpyHtoD(to, counts.data(), counts.size() * 4), "copy the counts");
  }

  // Of every sequence's first `tokens`, with the counts or without.
  void run(std::int64_t tokens, bool counted) {
    const auto once = [&](Forward forward, void* workspace, std::size_t bytes, Stream stream) {
      forward.tokens = tokens * forward.sequences;
      if (!counted) forward.committed_tokens = nullptr;
      return plan.run(forward, workspace, bytes, stream);
    };
    CHECK(rig.run(once, plan.workspace_bytes()) == "");
  }

  Bits state() const {
    const Bits all = rig.output_bits();  // o, then the state
    return {all.end() - static_cast<std::ptrdiff_t>(tensors.initial_state.size()), all.end()};
  }
  Bits o() const {
    Bits all = rig.output_bits();
    all.resize(all.size() - tensors.initial_state.size());
    return all;
  }

  Gpu gpu;
  Trial trial;
  reference::Tensors tensors;
  Rig rig;
  Plan plan;
};

// Strides are given, so that fewer tokens of the same sequences are a legal run.
Counted dense(const std::string& state, std::int64_t length, std::int64_t sequences) {
  Trial one = trial("committed=1 K=128 V=128 HV=4 " + state,
                    std::vector<std::int64_t>(static_cast<std::size_t>(sequences), length));
  one.layout = Layout::gapped;
  return Counted(one);
}

}  // namespace

TEST_CASE("committed tokens, on the device", "[gpu]") {
  check_on_device("committed tokens", committed(), kVariants);
}

TEST_CASE("committed tokens compose") {
  const std::vector<Trial> trials = committed();
  const Tally tally = compose_only("committed tokens", trials, "sm_90a", kVariants);
  CHECK(tally.failed == 0);
  CHECK(tally.passed == static_cast<int>(trials.size() * kVariants.size()));
}

TEST_CASE("only recurrent commits some of a sequence's tokens, and the others say so") {
  const Problem problem = problem_in_words("T=512 N=64 H=32 h0=1 ht=1 committed=1");
  for (const strategy::Strategy* strategy : strategy::table()) {
    const Status status = strategy->applicable(problem, h200());
    const std::string name = strategy->name;
    INFO(name);
    if (name == "recurrent") {
      CHECK(status);
      continue;
    }
    CHECK(status.code() == Code::unsupported);
    CHECK(status.message() ==
          "strategy " + name +
              ": committed_tokens want the state after any token, a chunk computes the one after "
              "its last; recurrent serves them");
  }
}

TEST_CASE("a committed state has the bits of a run that ends there", "[gpu]") {
  constexpr std::int64_t kLength = 9;
  for (const std::string state : kStates) {
    INFO(state);
    Counted counted = dense(state, kLength, 3);
    counted.run(kLength, false);
    const Bits whole = counted.o();
    CHECK((counted.state() != counted.tensors.initial_state));
    for (std::int32_t count = 0; count <= kLength; ++count) {
      INFO(count << " of " << kLength);
      counted.set({count, count, count});
      counted.run(kLength, true);
      const Bits committed = counted.state();
      CHECK((counted.o() == whole));
      counted.run(count, false);
      CHECK((counted.state() == committed));
      if (count == 0) CHECK((committed == counted.tensors.initial_state));
    }
  }
}

TEST_CASE("drafts replayed step by step end in the bits of one run", "[gpu]") {
  // The steps of one sequence: each begins where the one before was committed to, in place.
  constexpr std::int64_t kLength = 40;
  Trial one = committing(0, "HV=4 K=128 V=128 state=f32", {kLength});
  one.in_place_state = true;
  Counted counted(one);
  counted.run(kLength, false);
  const Bits state = counted.state(), o = counted.o();

  counted.rig.reset();
  const Problem& p = counted.trial.problem;
  const Forward all = counted.rig.forward();
  std::int64_t begin = 0;
  for (std::int32_t step = 0; begin < kLength; ++step) {
    const std::int64_t tokens = std::min<std::int64_t>(5 + step % 4, kLength - begin);
    const auto count = static_cast<std::int32_t>(std::min<std::int64_t>(1 + step % 6, tokens));
    const Forward forward = part_of(p, all, begin, begin + tokens);
    counted.set({count});
    const Status status = counted.plan.run(forward, nullptr, 0, counted.gpu.stream());
    INFO(status.message());
    REQUIRE(status);
    counted.gpu.synchronize();
    begin += count;
  }
  CHECK((counted.state() == state));
  CHECK((counted.o() == o));
}

TEST_CASE("a captured run replays with other counts", "[gpu]") {
  constexpr std::int64_t kLength = 6;
  Counted counted = dense("state=f32", kLength, 4);
  const launch::Driver& driver = counted.gpu.driver();
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  must(driver.StreamBeginCapture(counted.gpu.stream(), CU_STREAM_CAPTURE_MODE_GLOBAL),
       "begin capture");
  const Status status = counted.plan.run(counted.rig.forward(), nullptr, 0, counted.gpu.stream());
  must(driver.StreamEndCapture(counted.gpu.stream(), &graph), "end capture");
  INFO(status.message());
  REQUIRE(status);
  must(driver.GraphInstantiate(&executable, graph, 0), "instantiate");
  const std::vector<std::vector<std::int32_t>> replays = {
      {0, 1, 2, 3}, {6, 5, 4, 3}, {-1, 7, 0, 6}, {2, 2, 2, 2}};
  for (const std::vector<std::int32_t>& counts : replays) {
    counted.set(counts);
    counted.rig.reset();
    counted.gpu.synchronize();
    must(driver.GraphLaunch(executable, counted.gpu.stream()), "launch the graph");
    counted.gpu.synchronize();
    const Bits replayed = counted.rig.output_bits();
    counted.run(kLength, true);
    CHECK((counted.rig.output_bits() == replayed));
    // Each sequence's state, of a run in which all of them commit as many.
    const std::size_t one = counted.tensors.initial_state.size() / counts.size();
    const Bits state = counted.state();
    for (std::size_t n = 0; n < counts.size(); ++n) {
      counted.set(std::vector<std::int32_t>(counts.size(), counts[n]));
      counted.run(kLength, true);
      CHECK(std::memcmp(&counted.state()[n * one], &state[n * one], one) == 0);
    }
  }
  must(driver.GraphExecDestroy(executable), "destroy the graph");
  must(driver.GraphDestroy(graph), "destroy the graph");
}
