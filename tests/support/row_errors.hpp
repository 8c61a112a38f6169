// Errors row by row, each beside what rounding may make of it, so that what is small is not hidden
// by what was large before: rows of o [V], and of final states the V values of a key channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/recurrence.hpp"
#include "reference/tensors.hpp"

namespace kda::test {

struct RowError {
  double ratio = 0;   // error over what is expected: the largest of all rows, infinite where NaN
  std::string where;  // "token 3, head 1: off 2e-3 of 0.5, expected 1e-3"
};

// Expected is a root mean square of errors, and a rounding of the row itself.  Of two kinds of
// runs: the token recurrence with its inputs up to two roundings off and the products' operands
// rounded; and chunks of 64 tokens whose factors are off as 16 bits may be.
class RowErrors {
 public:
  // nothing: what every error may be, however little there is.  Squares of what is smaller than
  // 2^-75 are 0, by which segments look whether a state may be left out.
  RowErrors(const reference::Tensors& tensors, std::uint64_t seed, double nothing = 0x1p-75);

  RowError of_o(const reference::Outputs& out) const;
  RowError of_state(const reference::Outputs& out) const;

 private:
  struct Rows {
    std::vector<double> truth;
    std::vector<double> expected;  // an error a row
  };
  static Rows rows_of(std::vector<double> truth, std::int64_t columns);
  static void add_squares(const std::vector<double>& x, Rows& to);
  static void finish(Rows& rows, int runs, double roundoff);
  RowError worst(const std::vector<double>& x, const Rows& rows, int a_head) const;

  const Problem problem_;
  const double nothing_;
  Rows o_, state_;
};

}  // namespace kda::test
