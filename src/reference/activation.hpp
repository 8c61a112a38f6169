// What the token recurrence sees of a problem's inputs: log decays, beta, normalised rows.
// Real is double for the truth and float for the emulation of a kernel's arithmetic.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kda/kda.hpp"

namespace kda::reference {

template <class Real>
Real sigmoid(Real x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

template <class Real>
Real softplus(Real x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

// The natural-log decay of one channel; exp_A is exp(A_log), 1 where there is none.
template <class Real>
Real log_decay(const Problem& problem, Real g, Real exp_A, Real dt_bias) {
  switch (problem.gate) {
    case Gate::log_decay:
      return g;
    case Gate::softplus:
      return -exp_A * softplus(g + dt_bias);
    case Gate::bounded:
      return static_cast<Real>(problem.lower_bound) * sigmoid(exp_A * (g + dt_bias));
    case Gate::logsigmoid:
      return -softplus(-g);
  }
  return g;
}

template <class Real>
Real activated_beta(const Problem& problem, Real beta) {
  if (problem.beta_is_logit) beta = sigmoid(beta);
  const bool broken = problem.beta_at_most_one && !(beta >= 0 && beta <= 1);
  if (broken) return std::numeric_limits<Real>::quiet_NaN();
  return problem.allow_neg_eigval ? 2 * beta : beta;
}

// What multiplies a row of q or k: 1 / sqrt(sum of squares + 1e-6), or 1.
template <class Real>
Real row_factor(const Problem& problem, const double* row) {
  if (!problem.l2norm_qk) return 1;
  Real squares = 0;
  for (int c = 0; c < problem.key_dim; ++c)
    squares += static_cast<Real>(row[c]) * static_cast<Real>(row[c]);
  return 1 / std::sqrt(squares + static_cast<Real>(1e-6));
}

}  // namespace kda::reference
