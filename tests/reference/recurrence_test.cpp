#include "reference/recurrence.hpp"

#include <limits>

#include "problems.hpp"
#include "reference/error.hpp"
#include "reference/inputs.hpp"
#include "support/catch.hpp"

using namespace kda;
using namespace kda::reference;
using kda::test::Approx;

namespace {

// kda.hpp's formulas word for word, one head and sequence at a time: slow, and shares no code.
Outputs word_for_word(const Inputs& in) {
  const Problem& p = in.problem;
  const int K = p.key_dim, V = p.value_dim, HV = p.value_heads;
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  Outputs out;
  out.o.assign(in.v.size(), std::nan(""));
  for (int n = 0; n < in.sequences(); ++n)
    for (int j = 0; j < HV; ++j) {
      std::vector<double> S(std::size_t(K) * V, 0.0);
      for (int i = 0; i < K * V && !in.initial_state.empty(); ++i)
        S[i] = in.initial_state[(std::size_t(n) * HV + j) * K * V + i];
      for (std::int64_t t = in.cu_seqlens[n]; t < in.cu_seqlens[n + 1]; ++t) {
        const double* q = &in.q[(t * p.heads + j * p.heads / HV) * K];
        const double* k = &in.k[(t * p.heads + j * p.heads / HV) * K];
        double qq = 0, kk = 0;
        for (int c = 0; c < K; ++c) qq += q[c] * q[c], kk += k[c] * k[c];
        const double q_norm = p.l2norm_qk ? std::sqrt(qq + 1e-6) : 1;
        const double k_norm = p.l2norm_qk ? std::sqrt(kk + 1e-6) : 1;
        double beta = in.beta[t * HV + j];
        if (p.beta_is_logit) beta = sigmoid(beta);
        if (p.allow_neg_eigval) beta *= 2;
        for (int c = 0; c < K; ++c) {
          double g = in.g[(t * HV + j) * K + c];
          const double A = in.A_log.empty() ? 1 : std::exp(in.A_log[j]);
          const double x = g + (in.dt_bias.empty() ? 0 : in.dt_bias[j * K + c]);
          if (p.gate == Gate::softplus) g = -A * (x > 20 ? x : std::log1p(std::exp(x)));
          if (p.gate == Gate::logsigmoid) g = std::log(sigmoid(g));
          if (p.gate == Gate::bounded) g = p.lower_bound * sigmoid(A * x);
          for (int d = 0; d < V; ++d) S[c * V + d] *= std::exp(g);
        }
        for (int d = 0; d < V; ++d) {
          double e = in.v[(t * HV + j) * V + d];
          for (int c = 0; c < K; ++c) e -= S[c * V + d] * k[c] / k_norm;
          double o = 0;
          for (int c = 0; c < K; ++c) {
            S[c * V + d] += beta * k[c] / k_norm * e;
            o += p.scale * S[c * V + d] * q[c] / q_norm;
          }
          out.o[(t * HV + j) * V + d] = o;
        }
      }
      out.final_state.insert(out.final_state.end(), S.begin(), S.end());
    }
  return out;
}

void check_same(const Outputs& x, const Outputs& y, std::int64_t columns, double bound) {
  const Error o = error_of(x.o, y.o, columns);
  const Error state = error_of(x.final_state, y.final_state, columns);
  CHECK(o.rel_l2 <= bound);
  CHECK(o.not_finite == 0);
  CHECK(state.rel_l2 <= bound);
  CHECK(state.not_finite == 0);
}

}  // namespace

TEST_CASE("two tokens worked by hand") {
  // K = 2, V = 1, no normalisation: S starts at (8, 4).
  Inputs in;
  in.problem = small_problem(1, 1, 2, 1);
  in.problem.gate = Gate::log_decay;
  in.problem.beta_is_logit = in.problem.l2norm_qk = false;
  in.problem.scale = 0.5F;
  in.cu_seqlens = {0, 2};
  in.initial_state = {8, 4};
  in.g = {std::log(0.5), std::log(0.25), 0, -std::numeric_limits<double>::infinity()};
  in.k = {1, 0, 1, 1};
  in.q = {1, 1, 2, 0};
  in.v = {6, 10};
  in.beta = {0.5, 1};
  // t = 0: S' = (4, 1); e = 6 - 4 = 2; S = (5, 1); o = 0.5 * 6 = 3.
  // t = 1: S' = (5, 0); e = 10 - 5 = 5; S = (10, 5); o = 0.5 * 20 = 10.
  const Outputs out = recurrence(in);
  CHECK(out.o == std::vector<double>{3, 10});
  CHECK(out.final_state == std::vector<double>{10, 5});
}

TEST_CASE("the recurrence is its formulas word for word, for every option") {
  const Gate gate = GENERATE(Gate::log_decay, Gate::softplus, Gate::bounded, Gate::logsigmoid);
  const bool logit = GENERATE(true, false);
  const bool norm = GENERATE(true, false);
  Problem p = small_problem(2, 6, 7, 21);
  p.gate = gate;
  p.beta_is_logit = logit;
  p.allow_neg_eigval = norm;
  p.l2norm_qk = norm;
  p.initial_state = logit;
  InputSpec spec;
  spec.A_log = spec.dt_bias = logit;
  const Inputs in = reference_inputs(make_tensors(p, 90, {0, 3, 3, 75, 80}, spec));
  check_same(recurrence(in), word_for_word(in), p.value_dim, 1e-13);
}

TEST_CASE("a promise about beta that is broken makes NaN") {
  Problem p = small_problem(1, 1, 4, 3);
  p.beta_is_logit = false;
  p.beta_at_most_one = true;
  Inputs in = reference_inputs(make_tensors(p, 6, 1));
  const auto nans = [&] {
    int found = 0;
    for (const double x : recurrence(in).o) found += std::isnan(x) ? 1 : 0;
    return found;
  };
  CHECK(nans() == 0);
  for (const double beta : {1.01, -0.01, std::nan("")}) {
    in.beta[4] = beta;
    CHECK(nans() == 2 * 3);  // the last two tokens
  }
  in.beta[4] = 1;
  CHECK(nans() == 0);
}

TEST_CASE("heads restrict the work to a few value heads") {
  const Problem p = small_problem(2, 4, 16, 20);
  const Tensors tensors = make_tensors(p, 50, 1);
  const Inputs in = reference_inputs(tensors);
  const Outputs all = recurrence(in), some = recurrence(in, Arithmetic::fp64, {3, 1});
  const Outputs alone = recurrence(reference_inputs(tensors, {3, 1}));
  for (int t = 0; t < 50; ++t)
    for (int d = 0; d < 20; ++d) {
      CHECK(some.o[(t * 4 + 3) * 20 + d] == all.o[(t * 4 + 3) * 20 + d]);
      CHECK(alone.o[(t * 2 + 0) * 20 + d] == all.o[(t * 4 + 3) * 20 + d]);
      CHECK(alone.o[(t * 2 + 1) * 20 + d] == all.o[(t * 4 + 1) * 20 + d]);
      CHECK(std::isnan(some.o[(t * 4 + 2) * 20 + d]));
    }
  for (int i = 0; i < 16 * 20; ++i) CHECK(alone.final_state[i] == all.final_state[3 * 16 * 20 + i]);
}

TEST_CASE("a run split anywhere equals the whole run") {
  const Problem p = small_problem(1, 2, 8, 5);
  const Tensors tensors = make_tensors(p, 40, 1);
  const Inputs whole = reference_inputs(tensors);
  const Outputs expected = recurrence(whole);
  for (const std::int64_t t : {0, 1, 17, 39, 40}) {
    Inputs head = whole, tail = whole;
    head.cu_seqlens = {0, t};
    tail.cu_seqlens = {t, 40};
    const Outputs first = recurrence(head);
    tail.initial_state = first.final_state;
    Outputs second = recurrence(tail);
    for (std::int64_t i = 0; i < t * 2 * 5; ++i) second.o[i] = first.o[i];
    check_same(second, expected, 5, 1e-15);
  }
}

TEST_CASE("empty sequences and tokens past the last") {
  const Problem p = small_problem(1, 1, 4, 3);
  Inputs in = reference_inputs(make_tensors(p, 10, {0, 0, 6, 6}));
  for (int i = 6 * 3; i < 10 * 3; ++i) in.v[i] = std::nan("");
  const Outputs out = recurrence(in);
  for (int i = 0; i < 4 * 3; ++i) {
    CHECK(out.final_state[i] == in.initial_state[i]);
    CHECK(out.final_state[2 * 12 + i] == in.initial_state[2 * 12 + i]);
    CHECK(std::isfinite(out.final_state[12 + i]));
  }
  for (int i = 0; i < 10 * 3; ++i) CHECK(std::isnan(out.o[i]) == (i >= 18));

  in = reference_inputs(make_tensors(p, 0, 1));
  CHECK(recurrence(in).final_state == in.initial_state);
}

TEST_CASE("no gate is too strong or too weak") {
  const double inf = std::numeric_limits<double>::infinity();
  Problem p = small_problem(1, 1, 8, 8);
  p.gate = Gate::log_decay;
  InputSpec spec;
  spec.gate = GatePattern::by_token;
  spec.gate_other = GENERATE_COPY(0.0, -1e-4, -5.0, -500.0, -inf);
  const Outputs out = recurrence(reference_inputs(make_tensors(p, 64, 1, spec)));
  for (const double o : out.o) CHECK(std::isfinite(o));

  // Saturated gates: softplus(-800) is 0, softplus(800) is 800, and neither is NaN.
  p.gate = Gate::softplus;
  spec.gate_value = -800;
  spec.gate_other = 800;
  for (const double o : recurrence(reference_inputs(make_tensors(p, 64, 1, spec))).o)
    CHECK(std::isfinite(o));
}

TEST_CASE("rounded operands err as their dtype does, and hold the stated bounds") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  CAPTURE(static_cast<int>(type));
  Problem p = small_problem(1, 2, 64, 64, type);
  const Inputs in = reference_inputs(make_tensors(p, 300, 1));
  const Outputs truth = recurrence(in);
  const Errors errors = errors_of(p, recurrence(in, Arithmetic::operands_rounded), truth);
  CHECK(errors.o.rel_l2 < o_tolerance(p));
  CHECK(errors.state.rel_l2 < state_tolerance(p));
  CHECK(errors.o.rel_l2 > o_tolerance(p) / 1000);  // it does round
  CHECK(errors.o.not_finite == 0);
}
