#include "reference/error.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kda::reference {

Error error_of(const std::vector<double>& x, const std::vector<double>& y, std::int64_t columns) {
  Error error;
  double difference = 0, truth = 0, worst_row = 0, worst = -1;
  std::int64_t rows = 0;
  const auto size = static_cast<std::int64_t>(y.size());
  for (std::int64_t row = 0; row < size; row += columns) {
    double row_difference = 0;
    bool compared = false;
    for (std::int64_t i = row; i < std::min(size, row + columns); ++i) {
      if (std::isnan(y[i])) continue;
      compared = true;
      double gap = std::fabs(x[i] - y[i]);
      if (!std::isfinite(x[i]) && std::isfinite(y[i])) {
        ++error.not_finite;
        gap = INFINITY;
      }
      if (gap > worst) {
        worst = gap;
        error.worst = i;
        error.worst_value = x[i];
        error.worst_truth = y[i];
      }
      row_difference += gap * gap;
      truth += y[i] * y[i];
    }
    difference += row_difference;
    worst_row = std::max(worst_row, row_difference);
    rows += compared;
  }
  error.rel_l2 = std::sqrt(truth > 0 ? difference / truth : difference);
  const double mean = rows > 0 ? truth / static_cast<double>(rows) : 0;
  error.worst_row = std::sqrt(mean > 0 ? worst_row / mean : worst_row);
  return error;
}

std::string to_text(const Error& error) {
  char text[200];
  std::snprintf(text, sizeof text,
                "rel-L2 %.2e, worst row %.2e, %lld not finite, worst at %lld: %.6g for %.6g",
                error.rel_l2, error.worst_row, static_cast<long long>(error.not_finite),
                static_cast<long long>(error.worst), error.worst_value, error.worst_truth);
  return text;
}

Errors errors_of(const Problem& problem, const Outputs& x, const Outputs& truth) {
  Errors errors;
  errors.o = error_of(x.o, truth.o, problem.value_dim);
  if (!x.final_state.empty())
    errors.state = error_of(x.final_state, truth.final_state,
                            std::int64_t{problem.key_dim} * problem.value_dim);
  return errors;
}

double o_tolerance(const Problem& problem) { return tolerance(problem.qkv_type); }

double state_tolerance(const Problem& problem) {
  return std::max(tolerance(problem.qkv_type), tolerance(problem.state_type));
}

}  // namespace kda::reference
