#include "reference/inputs.hpp"

#include <cmath>
#include <limits>

#include "problems.hpp"
#include "reference/activation.hpp"
#include "support/catch.hpp"

using namespace kda;
using namespace kda::reference;
using kda::test::Approx;

namespace {

double mean_log_decay(const Inputs& in, int first_channel, int step) {
  const Problem& p = in.problem;
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t row = 0; row < in.g.size() / p.key_dim; ++row)
    for (int c = first_channel; c < p.key_dim; c += step, ++count) {
      const auto head = row % p.value_heads;
      const double A = in.A_log.empty() ? 1 : std::exp(in.A_log[head]);
      const double bias = in.dt_bias.empty() ? 0 : in.dt_bias[head * p.key_dim + c];
      sum += log_decay(p, in.g[row * p.key_dim + c], A, bias);
    }
  return sum / static_cast<double>(count);
}

}  // namespace

TEST_CASE("the gate regimes are those of the named cases, whatever the gate") {
  const Gate gate = GENERATE(Gate::log_decay, Gate::bounded);
  const bool bias = GENERATE(true, false);
  Problem p = small_problem(4, 4, 64, 16, DType::bf16);
  p.gate = gate;
  const auto mean = [&](GatePattern pattern, int first, int step) {
    InputSpec spec;
    spec.gate = pattern;
    spec.dt_bias = bias;
    return mean_log_decay(reference_inputs(make_tensors(p, 500, 1, spec)), first, step);
  };
  CHECK(mean(GatePattern::strong, 0, 1) == Approx(-3.2).margin(0.5));
  CHECK(mean(GatePattern::weak, 0, 1) == Approx(-2e-3).margin(2e-3));
  CHECK(mean(GatePattern::weak, 0, 1) < -1e-6);
  CHECK(mean(GatePattern::mixed, 0, 2) == Approx(-3.2).margin(0.5));
  CHECK(mean(GatePattern::mixed, 1, 2) > -0.01);
}

TEST_CASE("sequences commit none of their tokens, some and all, or as many as said") {
  Problem p = small_problem(1, 1, 4, 4);
  std::vector<std::int64_t> lengths(60, 3);
  lengths.back() = 0;
  const std::vector<std::int64_t> cu_seqlens = cu_seqlens_of(lengths);
  CHECK(make_tensors(p, cu_seqlens.back(), cu_seqlens).committed_tokens.empty());
  p.committed_tokens = true;
  const Tensors drawn = make_tensors(p, cu_seqlens.back(), cu_seqlens);
  REQUIRE(drawn.committed_tokens.size() == lengths.size());
  CHECK(drawn.committed_tokens.back() == 0);
  std::vector<int> met(4);
  for (const std::int64_t count : drawn.committed_tokens) ++met.at(static_cast<std::size_t>(count));
  for (const int times : met) CHECK(times > 0);
  InputSpec spec;
  spec.committed_tokens = 7;
  const Inputs said = reference_inputs(make_tensors(p, cu_seqlens.back(), cu_seqlens, spec));
  CHECK(said.committed_tokens == std::vector<std::int64_t>(lengths.size(), 7));
  CHECK(said.committed_of(0) == 3);
  CHECK_THAT(to_text(spec), test::contains("committed=7"));
}

TEST_CASE("inputs repeat after their period, and their first tokens are those without one") {
  const Problem p = small_problem(2, 4, 16, 8, DType::bf16);
  InputSpec spec;
  const Tensors whole = make_tensors(p, 7, 1, spec);
  spec.period = 7;
  const Tensors again = make_tensors(p, 17, 1, spec);
  const auto repeats = [](const Bytes& one, const Bytes& many) {
    REQUIRE(many.size() == one.size() / 7 * 17);
    for (std::size_t i = 0; i < many.size(); ++i) {
      if (many[i] != one[i % one.size()]) return false;
    }
    return true;
  };
  CHECK(repeats(whole.q, again.q));
  CHECK(repeats(whole.k, again.k));
  CHECK(repeats(whole.v, again.v));
  CHECK(repeats(whole.g, again.g));
  CHECK(repeats(whole.beta, again.beta));
  CHECK(whole.initial_state == again.initial_state);
}

TEST_CASE("patterns put their values where they say") {
  Problem p = small_problem(1, 1, 4, 4, DType::bf16);
  p.gate = Gate::log_decay;
  InputSpec spec;
  spec.gate_value = -1;
  spec.gate_other = -std::numeric_limits<double>::infinity();
  spec.gate_position = 3;
  spec.gate_period = 5;
  const auto other_at = [&](GatePattern pattern, int token, int channel) {
    spec.gate = pattern;
    const Inputs in = reference_inputs(make_tensors(p, 10, 1, spec));
    CHECK((in.g[token * 4 + channel] == -1 || std::isinf(in.g[token * 4 + channel])));
    return std::isinf(in.g[token * 4 + channel]);
  };
  CHECK_FALSE(other_at(GatePattern::constant, 1, 1));
  CHECK(other_at(GatePattern::by_token, 1, 0));
  CHECK_FALSE(other_at(GatePattern::by_token, 2, 1));
  CHECK(other_at(GatePattern::by_channel, 0, 3));
  CHECK_FALSE(other_at(GatePattern::by_channel, 1, 0));
  CHECK(other_at(GatePattern::one_channel, 0, 2));
  CHECK_FALSE(other_at(GatePattern::one_channel, 0, 1));
  CHECK(other_at(GatePattern::spike, 8, 0));
  CHECK_FALSE(other_at(GatePattern::spike, 7, 0));
}

TEST_CASE("keys have unit norm where the problem does not normalise them") {
  const KeyPattern keys =
      GENERATE(KeyPattern::random, KeyPattern::identical, KeyPattern::correlated,
               KeyPattern::alternating, KeyPattern::rank_two);
  Problem p = small_problem(2, 2, 33, 4);
  p.l2norm_qk = false;
  InputSpec spec;
  spec.keys = keys;
  const Inputs in = reference_inputs(make_tensors(p, 20, 1, spec));
  for (int row = 0; row < 40; ++row) {
    double k = 0, q = 0, same = 0;
    for (int c = 0; c < 33; ++c) {
      k += in.k[row * 33 + c] * in.k[row * 33 + c];
      q += in.q[row * 33 + c] * in.q[row * 33 + c];
      same += in.k[row * 33 + c] * in.k[row % 2 * 33 + c];
    }
    CHECK(k == Approx(1).margin(1e-5));
    CHECK(q == Approx(1).margin(1e-5));
    if (keys == KeyPattern::identical) CHECK(same == Approx(1).margin(1e-5));
    if (keys == KeyPattern::alternating)
      CHECK(same == Approx(row / 2 % 2 == 0 ? 1 : -1).margin(1e-5));
    if (keys == KeyPattern::correlated) CHECK(same > 0.5);
  }
}

TEST_CASE("a given beta is what comes out of the activation") {
  const double beta = GENERATE(0.0, 1e-4, 0.5, 1.0);
  for (const bool logit : {true, false})
    for (const bool negative : {true, false}) {
      Problem p = small_problem(1, 1, 4, 4);
      p.beta_is_logit = logit;
      p.allow_neg_eigval = negative;
      InputSpec spec;
      spec.beta = beta;
      const Inputs in = reference_inputs(make_tensors(p, 3, 1, spec));
      CHECK(activated_beta(p, in.beta[2]) == Approx(beta).margin(1e-7));
    }
}

TEST_CASE("inputs are standard normal, repeat, and differ by seed") {
  const Problem p = small_problem(2, 2, 128, 64);
  InputSpec spec;
  const Tensors once = make_tensors(p, 400, 1, spec), again = make_tensors(p, 400, 1, spec);
  CHECK((once.v == again.v));
  CHECK((once.g == again.g));
  spec.seed = 2;
  CHECK((once.v != make_tensors(p, 400, 1, spec).v));

  const Inputs in = reference_inputs(once);
  for (const std::vector<double>* tensor : {&in.q, &in.k, &in.v, &in.g}) {
    double sum = 0, squares = 0;
    for (const double x : *tensor) sum += x, squares += x * x;
    const auto count = static_cast<double>(tensor->size());
    CHECK(std::fabs(sum / count) < 0.02);
    CHECK(squares / count == Approx(1).margin(0.03));
  }
  CHECK((in.q != in.k));
}

TEST_CASE("a spec's text says what differs from the default") {
  InputSpec spec;
  CHECK(to_text(spec) == "gate=strong seed=1");
  spec.gate = GatePattern::spike;
  spec.gate_other = -500;
  spec.beta = 0.5;
  spec.keys = KeyPattern::rank_two;
  CHECK(to_text(spec) == "gate=spike(0,-500)@0/64 keys=rank_two beta=0.5 seed=1");
  CHECK(gate_regime("weak") == GatePattern::weak);
  CHECK_FALSE(gate_regime("spike"));
}
