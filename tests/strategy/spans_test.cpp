// Inputs that change from span to span, row by row.  The bug that they were made for: segments left
// out what remained of the state before them once it was little beside what others had written in
// the same V columns, although gates then cleared those channels and left it alone; of all rows
// together that is no error.
#include "support/spans.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "reference/parallel.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "support/rig.hpp"
#include "support/row_errors.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

constexpr double kMost = 8;  // of what is expected
// Of 1, 24, 41, 48 and 49 segments that were compared by V columns alone lost a row or a channel.
constexpr std::uint64_t kSeeds[] = {1, 2, 3, 11, 24, 41, 48, 49};

constexpr std::uint64_t kLongSeeds[] = {1, 2, 3, 4, 5};

constexpr const char* kProblems[] = {
    "K=128 V=128 h0=0 beta_logit=0 beta_most_1=1",
    "K=128 V=128 h0=0 beta_logit=0 beta_most_1=1 gate=log_decay",
    "K=128 V=128 h0=1 beta_logit=0 beta_most_1=1 l2norm=0 qk_normalized=1",
    "K=64 V=64 h0=0 beta_logit=0 beta_most_1=1 g=f32",
};

const std::vector<Variant> kVariants = {
    {"recurrent", ""},
    {"chunk", ""},
    {"chunk", "chunk=16"},
    {"chunk", "chunk=64"},
    {"chunk_wgmma", ""},
    {"chunk_wgmma", "stages_at_once=2"},
    {"chunk_wgmma", "chunk=64"},
    {"fused", "groups=2"},
    {"fused", "groups=3"},
    {"fused", "groups=4"},
    {"segments", "segment=4 segments=1"},
    {"segments", "segment=16 segments=1 warpgroups=1"},
    {"segments", "segment=32 segments=1 warpgroups=2"},
    {"segments", "segments=3"},
    {"segments", "segments=5"},
    {"by_gates", "segments=2 otherwise=2 carries=1"},
    {"by_gates", "segments=4 otherwise=3 carries=1"},
    {"by_gates", "segments=2 otherwise=2 carries=2"},
    {"by_gates", "segments=5 otherwise=3 carries=2"},
};

Trial of_spans(const std::string& words, std::int64_t tokens) {
  return complete(trial("H=4 HV=4 " + words, {tokens}));
}

// One a variant; none where it does not serve the problem.
std::vector<std::optional<Plan>> plans_of(const Problem& problem,
                                          const std::vector<Variant>& variants) {
  std::vector<std::optional<Plan>> plans(variants.size());
  std::vector<Status> statuses(plans.size());
  reference::parallel_for(static_cast<std::int64_t>(plans.size()), [&](std::int64_t i) {
    const Variant& by = variants[i];
    Result<Plan> plan = Plan::make(problem, {.strategy = by.strategy, .tuning = by.tuning});
    if (plan) {
      plans[i] = *std::move(plan);
    } else {
      statuses[i] = plan.status();
    }
  });
  for (std::size_t i = 0; i < plans.size(); ++i) {
    INFO(to_text(variants[i]) << ": " << statuses[i].message());
    CHECK((plans[i] || statuses[i].code() == Code::unsupported));
  }
  return plans;
}

template <std::size_t count>
void check(const Gpu& gpu, const char* words, std::int64_t tokens,
           const std::vector<Variant>& variants, const std::uint64_t (&seeds)[count],
           double nothing = 0x1p-75) {
  const Trial one = of_spans(words, tokens);
  const auto plans = plans_of(one.problem, variants);
  for (const std::uint64_t seed : seeds) {
    const reference::Tensors tensors = spans(one, seed);
    const RowErrors errors(tensors, seed, nothing);
    Rig rig(gpu, one, tensors);
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (!plans[i]) continue;
      INFO(to_text(variants[i]) << " | " << words << " | seed " << seed);
      CHECK(rig.run(*plans[i]) == "");
      const reference::Outputs out = rig.outputs();
      const RowError o = errors.of_o(out), state = errors.of_state(out);
      {
        INFO("o: " << o.where);
        CHECK(o.ratio < kMost);
      }
      INFO("final state: " << state.where);
      CHECK(state.ratio < kMost);
    }
  }
}

}  // namespace

TEST_CASE("spans, row by row, by every strategy", "[gpu][spans]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const char* words : kProblems) check(gpu, words, 2560, kVariants, kSeeds);
}

// In segments so long that T is given up in them, and pairs' that go on.  T of 2^-64 is nothing,
// and so is what it makes of a state of some units.
TEST_CASE("long spans, row by row, by long segments", "[gpu][spans]") {
  if (!on_device()) return;
  const Gpu gpu;
  const std::vector<Variant> variants = {
      {"segments", "chunk=16 prepare_threads=128 segment=128 segments=1 warpgroups=1"},
      {"segments", "chunk=16 prepare_threads=128 segment=128 segments=1 warpgroups=2"},
      {"segments", "segments=2"},
      {"by_gates", "segments=2 otherwise=2 carries=2"},
  };
  for (const char* words : {kProblems[0], kProblems[3]}) {
    check(gpu, words, 6400, variants, kLongSeeds, 0x1p-60);
  }
}

TEST_CASE("errors by rows see what is little", "[strategy]") {
  for (const char* words : kProblems) {
    INFO(words);
    const Trial one = of_spans(words, 320);
    const Problem& p = one.problem;
    const reference::Tensors tensors = spans(one, 3);
    const RowErrors errors(tensors, 3);
    const reference::Inputs in = reference::reference_inputs(tensors);

    // Rounding is no error, neither is none at all.
    const auto exact = reference::recurrence(in);
    const auto rounded = reference::recurrence(in, reference::Arithmetic::operands_rounded);
    for (const reference::Outputs* out : {&exact, &rounded}) {
      CHECK(errors.of_o(*out).ratio < kMost / 2);
      CHECK(errors.of_state(*out).ratio < kMost / 2);
    }
    CHECK(errors.of_state(exact).ratio == 0);

    // Rows that are little beside the largest, lost: of all together that is no error.
    const auto lose_little = [&](const std::vector<double>& rows, std::vector<double>& of) {
      const auto V = static_cast<std::size_t>(p.value_dim);
      const auto square_of = [&](std::size_t at) {
        double squares = 0;
        for (std::size_t j = 0; j < V; ++j) squares += rows[at + j] * rows[at + j];
        return squares;
      };
      double most = 0;
      for (std::size_t at = 0; at < rows.size(); at += V) most = std::max(most, square_of(at));
      for (std::size_t at = 0; at < rows.size(); at += V)
        if (square_of(at) < 1e-8 * most) std::fill_n(&of[at], V, 0.0);
    };
    reference::Outputs lost = exact;
    lose_little(exact.o, lost.o);
    lose_little(exact.final_state, lost.final_state);
    const reference::Errors all = reference::errors_of(p, lost, exact);
    CHECK(all.o.rel_l2 < reference::o_tolerance(p));
    CHECK(all.state.rel_l2 < reference::state_tolerance(p));
    CHECK(errors.of_o(lost).ratio > kMost);
    CHECK(errors.of_state(lost).ratio > kMost);

    lost.o[7] = std::numeric_limits<double>::quiet_NaN();
    CHECK(std::isinf(errors.of_o(lost).ratio));
    CHECK(errors.of_o(lost).where.find("token 0, head 0: off nan") == 0);
  }
}
