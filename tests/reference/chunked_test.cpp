#include "reference/chunked.hpp"

#include <limits>

#include "problems.hpp"
#include "reference/error.hpp"
#include "reference/inputs.hpp"
#include "support/catch.hpp"

using namespace kda;
using namespace kda::reference;

namespace {

void check_against_recurrence(const Inputs& in, int C, double bound) {
  const Problem& p = in.problem;
  const Outputs truth = recurrence(in), chunks = chunked(in, C).outputs;
  const Errors errors = errors_of(p, chunks, truth);
  INFO(to_text(errors.o) << "; state " << to_text(errors.state));
  CHECK(errors.o.rel_l2 <= bound);
  CHECK(errors.o.not_finite == 0);
  CHECK(errors.state.rel_l2 <= bound);
  CHECK(errors.state.not_finite == 0);
}

double dot(const double* a, const double* b, int n, int stride_a = 1, int stride_b = 1) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i * stride_a] * b[i * stride_b];
  return sum;
}

}  // namespace

TEST_CASE("chunks equal tokens, for every option") {
  const Gate gate = GENERATE(Gate::log_decay, Gate::softplus, Gate::bounded, Gate::logsigmoid);
  const bool logit = GENERATE(true, false);
  const bool negative = GENERATE(true, false);
  const bool norm = GENERATE(true, false);
  const bool state = GENERATE(true, false);
  Problem p = small_problem(2, 4, 12, 9);
  p.gate = gate;
  p.beta_is_logit = logit;
  p.allow_neg_eigval = negative;
  p.l2norm_qk = norm;
  p.initial_state = state;
  const Inputs in = reference_inputs(make_tensors(p, 85, {0, 1, 1, 40, 77}));
  for (const int C : {1, 4, 16, 64}) {
    CAPTURE(C, static_cast<int>(gate), logit, negative, norm, state);
    check_against_recurrence(in, C, 1e-12);
  }
}

TEST_CASE("chunks equal tokens on every gate, without exp(-P)") {
  const double inf = std::numeric_limits<double>::infinity();
  const double value =
      GENERATE_COPY(0.0, -1e-4, -0.01, -1.0, -5.0, -5.5, -20.0, -100.0, -500.0, -inf);
  const GatePattern pattern = GENERATE(GatePattern::constant, GatePattern::by_token,
                                       GatePattern::by_channel, GatePattern::one_channel);
  Problem p = small_problem(1, 1, 16, 16);
  p.gate = Gate::log_decay;
  InputSpec spec;
  spec.gate = pattern;
  spec.gate_value = value;
  spec.gate_other = -1e-4;
  CAPTURE(to_text(spec));
  check_against_recurrence(reference_inputs(make_tensors(p, 70, 1, spec)), 32, 1e-12);
}

TEST_CASE("chunks equal tokens on hard keys") {
  const KeyPattern keys =
      GENERATE(KeyPattern::identical, KeyPattern::correlated, KeyPattern::alternating,
               KeyPattern::rank_two, KeyPattern::zero, KeyPattern::unnormalised);
  Problem p = small_problem(1, 1, 16, 16);
  p.l2norm_qk = keys != KeyPattern::unnormalised;
  p.allow_neg_eigval = true;
  InputSpec spec;
  spec.keys = keys;
  spec.gate = GatePattern::weak;
  spec.beta = 1.9;
  if (keys == KeyPattern::unnormalised) spec.beta = 1.0;
  CAPTURE(to_text(spec));
  check_against_recurrence(reference_inputs(make_tensors(p, 130, 1, spec)), 64, 1e-11);
}

TEST_CASE("the stages fit together as their formulas say") {
  constexpr int C = 16, K = 8, V = 6;
  const Problem p = small_problem(1, 2, K, V);
  const Inputs in = reference_inputs(make_tensors(p, 41, 1));
  const Chunked result = chunked(in, C);
  REQUIRE(result.chunks.size() == 3 * 2);
  for (const Chunk& c : result.chunks) {
    CAPTURE(c.first, c.head, c.rows);
    CHECK(c.rows == std::min<std::int64_t>(C, 41 - c.first));
    const int last = c.rows - 1;
    for (int i = 0; i < C; ++i) {
      // (I + L) M = I.
      for (int j = 0; j < C; ++j) {
        const double product = dot(&c.L[i * C], &c.M[j], C, 1, C) + c.M[i * C + j];
        CHECK(std::fabs(product - (i == j)) < 1e-14);
        if (j > i) CHECK(c.M[i * C + j] == 0);
        if (j > i) CHECK(c.Aqk[i * C + j] == 0);
      }
      for (int ch = 0; ch < K; ++ch) {
        const int at = i * K + ch;
        if (i >= c.rows) {
          CHECK(c.kd[at] == 0);
          CHECK(c.qd[at] == 0);
          CHECK(c.ak[at] == 0);
          continue;
        }
        CHECK(std::fabs(c.kd[at] - c.k[at] * std::exp(c.P[at])) < 1e-15);
        CHECK(std::fabs(c.qd[at] - p.scale * c.q[at] * std::exp(c.P[at])) < 1e-15);
        CHECK(std::fabs(c.kg[at] - c.k[at] * std::exp(c.P[last * K + ch] - c.P[at])) < 1e-14);
        CHECK(std::fabs(c.decay[ch] - std::exp(c.P[last * K + ch])) < 1e-15);
      }
    }
    // The folded form gives the same outputs: R = v - kd S;  o = qd S + aq R.
    std::vector<double> R(C * V, 0.0);
    for (int i = 0; i < c.rows; ++i)
      for (int j = 0; j < V; ++j)
        R[i * V + j] =
            in.v[((c.first + i) * 2 + c.head) * V + j] - dot(&c.kd[i * K], &c.state[j], K, 1, V);
    for (int i = 0; i < c.rows; ++i)
      for (int j = 0; j < V; ++j) {
        const double o =
            dot(&c.qd[i * K], &c.state[j], K, 1, V) + dot(&c.aq[i * C], &R[j], C, 1, V);
        CHECK(std::fabs(o - result.outputs.o[((c.first + i) * 2 + c.head) * V + j]) < 1e-13);
      }
    // ... and the same state: decay S + ak^T R.
    for (const Chunk& next : result.chunks) {
      if (next.head != c.head || next.first != c.first + C) continue;
      for (int ch = 0; ch < K; ++ch)
        for (int j = 0; j < V; ++j) {
          const double S = c.decay[ch] * c.state[ch * V + j] + dot(&c.ak[ch], &R[j], C, K, V);
          CHECK(std::fabs(S - next.state[ch * V + j]) < 1e-13);
        }
    }
  }
}
