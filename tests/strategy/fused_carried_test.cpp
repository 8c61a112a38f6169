// Pairs of blocks that walk segments from nothing, and keep factors by which states are carried
// into them: how many, and what is right where these are not enough.
#include "strategy/fused_carried.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "abi/by_gates.h"
#include "abi/chunk.h"
#include "abi/factors.h"
#include "abi/fused.h"
#include "abi/segments.h"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/by_gates.hpp"
#include "support/one_run.hpp"
#include "support/open_channel.hpp"
#include "support/rig.hpp"
#include "support/spoilt_column.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;
using reference::GatePattern;
using reference::InputSpec;

namespace {

constexpr const char* kPairs[] = {"segments=2 otherwise=2 carries=2",
                                  "segments=5 otherwise=3 carries=2"};

// Of two heads that write so strongly.
Trial writing(GatePattern gate, double beta, std::int64_t tokens) {
  InputSpec spec;
  spec.gate = gate;
  spec.beta = beta;
  return complete(trial("beta_logit=0 beta_most_1=1 K=128 V=128 H=1 HV=2", {tokens}, spec));
}

Plan plan_of(const Trial& one, const char* strategy, const char* tuning) {
  auto plan = Plan::make(one.problem, {.strategy = strategy, .tuning = tuning});
  INFO(strategy << " " << tuning << " | " << to_text(one) << ": " << plan.status().message());
  REQUIRE(plan);
  return *std::move(plan);
}

auto errors_of(const Gpu& gpu, const Trial& one, Truth& truth, const char* strategy,
               const char* tuning) {
  const Plan plan = plan_of(one, strategy, tuning);
  Rig rig(gpu, one, truth.tensors());
  CHECK(rig.run(plan) == "");
  truth.judge(rig.outputs());
  return truth.last_errors();
}

}  // namespace

TEST_CASE("factors of all chunks are kept of segments of up to 256", "[strategy]") {
  const auto keeps_all = [](const char* words, int segments) {
    return strategy::keeps_all(problem_in_words(words), segments);
  };
  CHECK(keeps_all("T=65536 H=8", 8));
  CHECK_FALSE(keeps_all("T=65537 H=8", 8));
  CHECK_FALSE(keeps_all("T=65536 H=8", 7));
  CHECK(keeps_all("T=1 H=1", 33));
  // A run may be of one sequence that has all tokens.
  CHECK_FALSE(keeps_all("T=65536 N=2 H=4", 7));
}

TEST_CASE("states of 16 bits in [K, V] are not carried by pairs", "[strategy]") {
  const Problem problem = problem_in_words("T=65536 H=8 h0=1 ht=1 state=bf16 layout=key_first");
  const auto values = strategy::by_gates.defaults(problem, h200());
  CHECK(tunable::tuning_of<abi::by_gates::Tuning>(values, abi::by_gates::tunables).carries == 1);
  const auto recipe = strategy::by_gates.compose(
      problem, h200(), {{"segments", 8}, {"otherwise", 3}, {"carries", 2}});
  CHECK(recipe.status().message().find("carries=1 does") != std::string::npos);
}

namespace {

// Where in the workspace something of a run lies.
struct Piece {
  const void* at;
  int bytes;
};

// Of each piece whether the run has written it; find(pairs, carry): pieces, by what both are
// launched with.
template <class Find>
std::vector<bool> written_by_run(const Gpu& gpu, const Trial& one, const char* tuning,
                                 const Find& find) {
  const Plan plan = plan_of(one, "by_gates", tuning);
  const auto values = tunable::parse(tuning, strategy::by_gates.space(),
                                     strategy::by_gates.defaults(one.problem, h200()));
  REQUIRE(values);
  const auto recipe = strategy::by_gates.compose(one.problem, h200(), *values);
  REQUIRE(recipe);
  REQUIRE(recipe->stages.size() == 2);
  Truth truth(one);
  Rig rig(gpu, one, truth.tensors());
  std::vector<bool> written;
  const auto run = [&](const Forward& forward, void* workspace, std::size_t bytes, Stream stream) {
    compose::Launch pairs, carry;
    recipe->stages[0].bind({forward, static_cast<std::byte*>(workspace)}, pairs);
    recipe->stages[1].bind({forward, static_cast<std::byte*>(workspace)}, carry);
    const auto read = [&](const Piece& piece) {
      std::vector<std::byte> out(static_cast<std::size_t>(piece.bytes));
      must(gpu.driver().MemcpyDtoH(out.data(), reinterpret_cast<CUdeviceptr>(piece.at), out.size()),
           "download");
      return out;
    };
    const std::vector<Piece> pieces = find(pairs, carry);
    std::vector<std::vector<std::byte>> before;
    for (const Piece& piece : pieces) before.push_back(read(piece));
    const Status status = plan.run(forward, workspace, bytes, stream);
    gpu.synchronize();
    for (std::size_t i = 0; i < pieces.size(); ++i) written.push_back(read(pieces[i]) != before[i]);
    return status;
  };
  CHECK(rig.run(run, plan.workspace_bytes()) == "");
  return written;
}

template <class Args>
Args args_of(const compose::Launch& launch) {
  Args args;
  REQUIRE(launch.args_bytes == sizeof args);
  std::memcpy(static_cast<void*>(&args), launch.args, sizeof args);
  return args;
}

}  // namespace

TEST_CASE("states are carried under any gate", "[gpu][carried]") {
  std::vector<Trial> trials;
  for (const char* words : {"gate=softplus ", "gate=logsigmoid g=f16 K=64 ",
                            "gate=log_decay g=f32 ", "gate=softplus g=f32 state=bf16 "})
    for (const GatePattern gate : {GatePattern::strong, GatePattern::weak, GatePattern::mixed}) {
      InputSpec spec;
      spec.gate = gate;
      trials.push_back(trial(std::string(words) + "V=128 HV=2", {2000, 2000}, spec));
    }
  check_on_device("carried under any gate", trials,
                  {{"by_gates", kPairs[0]}, {"by_gates", kPairs[1]}});
}

// What is carried is forgotten by then, and the rest would only take time.
TEST_CASE("of gates that forget within two chunks factors of eight are kept", "[gpu][carried]") {
  if (!on_device()) return;
  const Gpu gpu;
  const auto kept = [&](GatePattern gate) {
    const Trial one = writing(gate, 0.5, 2 * 32 * 40);
    const int image = abi::chunk::image(problem::shape_of(one.problem), abi::factors::chunk).bytes;
    return written_by_run(gpu, one, kPairs[0], [&](const auto& pairs, const auto&) {
      std::vector<Piece> pieces;  // of the second segment, head 0
      for (const int chunk : {0, 7, 8, 15, 39}) {
        pieces.push_back({args_of<abi::fused::Args>(pairs).kept.images +
                              std::int64_t{chunk} * one.problem.value_heads * image,
                          image});
      }
      return pieces;
    });
  };
  CHECK(kept(GatePattern::strong) == std::vector<bool>{true, true, false, false, false});
  CHECK(kept(GatePattern::weak) == std::vector<bool>{true, true, true, true, true});
  CHECK(kept(GatePattern::mixed) == std::vector<bool>{true, true, true, true, true});
}

// Else chains would go one after another, and be as right.  What comes into the third segment is
// known after the second one's first turn, and nobody waits for what the last one leaves.
TEST_CASE("T is found behind ends at which much is left, and there alone", "[gpu][carried]") {
  if (!on_device()) return;
  const Gpu gpu;
  const auto found = [&](GatePattern gate, double beta) {
    const Trial one = writing(gate, beta, 5 * 32 * 130);
    const auto shape = problem::shape_of(one.problem);
    return written_by_run(gpu, one, kPairs[1], [&](const auto&, const auto& carry) {
      const auto* images =
          static_cast<const char*>(args_of<abi::segments::Args>(carry).segments.transition);
      std::vector<Piece> pieces;  // of head 0 and its first V columns
      for (const int segment : {1, 2, 3, 4}) {
        const std::int64_t tile =
            std::int64_t{segment} * one.problem.value_heads * abi::segments::value_tiles(shape);
        const int bytes = abi::segments::transition_bytes(shape);
        pieces.push_back({images + tile * bytes, bytes});
      }
      return pieces;
    });
  };
  CHECK(found(GatePattern::weak, 0.0) == std::vector<bool>{false, false, true, false});
  CHECK(found(GatePattern::weak, 0.5) == std::vector<bool>{false, false, false, false});
}

// Pairs keep factors of the first chunks alone: what is there after these goes the other way.
TEST_CASE("what is not forgotten within what is kept is right all the same", "[gpu][carried]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const GatePattern gate : {GatePattern::weak, GatePattern::mixed, GatePattern::strong}) {
    for (const bool in_place : {false, true}) {
      Trial one = writing(gate, 0.0, 2 * 32 * 300);  // nothing is written, nor taken away
      one.in_place_state = in_place;
      Truth truth(one);
      const auto whole = errors_of(gpu, one, truth, "chunk_wgmma", "stages_at_once=1");
      for (const char* tuning : kPairs) {
        const auto cut = errors_of(gpu, one, truth, "by_gates", tuning);
        INFO(tuning << " | " << to_text(one));
        // o is rounded in each turn.
        CHECK(cut.o.rel_l2 < 1.25 * whole.o.rel_l2 + 1e-4);
        CHECK(cut.state.rel_l2 < 1.05 * whole.state.rel_l2 + 1e-4);
      }
    }
  }
}

TEST_CASE("what is much at a segment's end goes on by T of any size", "[gpu][carried]") {
  std::vector<Trial> trials;
  for (const char* size : {"K=64 V=128", "K=128 V=256", "K=64 V=256 HV=2"}) {
    for (const bool in_place : {false, true}) {
      InputSpec spec;
      spec.gate = GatePattern::weak;
      spec.beta = 0.02;
      Trial one =
          trial(std::string("beta_logit=0 beta_most_1=1 ") + size, {32 * 50, 32 * 50}, spec);
      one.in_place_state = in_place;
      trials.push_back(one);
    }
  }
  check_on_device("T of any size", trials, {{"by_gates", kPairs[0]}, {"by_gates", kPairs[1]}});
}

// The bug: as of segments beside prepare (carried_test.cpp), what was carried ended where it was
// little beside other channels.
TEST_CASE("a channel that stays open is carried by pairs", "[gpu][carried]") {
  if (!on_device()) return;
  const Gpu gpu;
  const int segments_of[] = {2, 5};
  for (std::size_t i = 0; i < std::size(kPairs); ++i) {
    check_open_channel(gpu, OpenChannel(segments_of[i], 1280), "by_gates", kPairs[i]);
  }
}

TEST_CASE("every channel that stays open is carried by pairs", "[gpu][carried]") {
  if (!on_device()) return;
  check_every_open_channel(Gpu(), "by_gates", kPairs[0]);
}

TEST_CASE("an infinite state is carried to the end by pairs", "[gpu][carried]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const GatePattern gate : {GatePattern::strong, GatePattern::weak}) {
    const Trial one = writing(gate, 0.5, 2 * 32 * 90 + 7);
    Truth truth(one);
    reference::Tensors tensors = truth.tensors();
    spoil_column(tensors);
    for (const char* tuning : kPairs) {
      INFO(tuning << " | " << to_text(one));
      const Plan plan = plan_of(one, "by_gates", tuning);
      Rig rig(gpu, one, tensors);
      CHECK(rig.run(plan) == "");
      check_only_that_is_spoilt(rig.outputs(), 256);
    }
  }
}

// What blocks have told each other in one run, how much they kept and what T was, the next must not
// see.
TEST_CASE("a run by pairs after one that kept more or less", "[gpu][carried]") {
  if (!on_device()) return;
  const Gpu gpu;
  const Trial forgets = writing(GatePattern::strong, 0.5, 2 * 32 * 90);
  const Trial keeps = writing(GatePattern::weak, 0.02, 2 * 32 * 90);
  Truth first(forgets), second(keeps);
  for (const char* tuning : kPairs) {
    INFO(tuning);
    const Plan plan = plan_of(forgets, "by_gates", tuning);
    check_behind(gpu, plan, forgets, first, keeps, second);
    check_behind(gpu, plan, keeps, second, forgets, first);
  }
}
