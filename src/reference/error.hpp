// How far an output is from the truth, and how far it may be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kda/kda.hpp"
#include "reference/recurrence.hpp"

namespace kda::reference {

// The stated bound on rel-L2 of o and of the state, on the standard inputs.
constexpr double tolerance(DType type) {
  return type == DType::f32 ? 2e-5 : type == DType::f16 ? 1e-3 : 5e-3;
}
// On hard inputs: this times the error of Arithmetic::operands_rounded.
constexpr double kHardInputFactor = 1.5;

struct Error {
  double rel_l2 = 0;        // |x - y| / |y| over every element; |x| where y is all zero
  double worst_row = 0;     // max over rows of |x - y| / the rms row norm of y
  std::int64_t worst = -1;  // the element with the largest |x - y|, or the first not finite
  double worst_value = 0, worst_truth = 0;  // there
  std::int64_t not_finite = 0;              // elements of x that are not finite where y is
};

// x against the truth y, in rows of `columns`; elements where y is NaN are not compared.
Error error_of(const std::vector<double>& x, const std::vector<double>& y, std::int64_t columns);

// "rel-L2 3.1e-03, worst row 1.2e-02, 4 not finite, worst at 17: 0.5 for 0.25"
std::string to_text(const Error& error);

struct Errors {
  Error o, state;
};
Errors errors_of(const Problem& problem, const Outputs& x, const Outputs& truth);

// The stated bound of o, and of the state (which has its own dtype's rounding on top).
double o_tolerance(const Problem& problem);
double state_tolerance(const Problem& problem);

}  // namespace kda::reference
