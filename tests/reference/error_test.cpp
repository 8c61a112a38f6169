#include "reference/error.hpp"

#include <cmath>

#include "support/catch.hpp"

using namespace kda;
using namespace kda::reference;
using kda::test::Approx;

TEST_CASE("rel-L2 is the norm of the difference over the norm of the truth") {
  const Error error = error_of({3, 4, 0, 1}, {3, 0, 0, 0}, 2);
  CHECK(error.rel_l2 == Approx(std::sqrt(17.0) / 3));
  CHECK(error.worst == 1);
  CHECK(error.worst_value == 4);
  CHECK(error.not_finite == 0);
  // Row norms: truth 3 and 0, rms sqrt(9 / 2); differences 4 and 1.
  CHECK(error.worst_row == Approx(4 / std::sqrt(4.5)));
}

TEST_CASE("an element that is not finite is counted and never passes") {
  for (const double bad : {std::nan(""), double(INFINITY)}) {
    const Error error = error_of({1, bad, 1}, {1, 1, 1}, 3);
    CHECK(error.not_finite == 1);
    CHECK(error.worst == 1);
    CHECK_FALSE(error.rel_l2 <= 1e300);
  }
}

TEST_CASE("elements that no sequence covers are not compared") {
  const Error error = error_of({1, std::nan("")}, {1, std::nan("")}, 1);
  CHECK(error.rel_l2 == 0);
  CHECK(error.not_finite == 0);
}

TEST_CASE("a truth of zeros leaves the absolute error") {
  CHECK(error_of({0, 0}, {0, 0}, 2).rel_l2 == 0);
  CHECK(error_of({0, 2}, {0, 0}, 2).rel_l2 == 2);
}

TEST_CASE("the state's bound is that of the coarser of its dtype and the problem's") {
  Problem p;
  p.qkv_type = DType::f32;
  p.state_type = DType::bf16;
  CHECK(o_tolerance(p) == 2e-5);
  CHECK(state_tolerance(p) == 5e-3);
}
