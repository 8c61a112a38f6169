#include "measure/statistics.hpp"

#include <string>

#include "support/catch.hpp"

using namespace kda;
using kda::test::Approx;

TEST_CASE("quantiles are linear between order statistics", "[measure]") {
  CHECK(measure::quantile({3, 1, 2}, 0.5) == 2);
  CHECK(measure::quantile({4, 1, 3, 2}, 0.5) == 2.5);
  CHECK(measure::quantile({1, 2, 3, 4, 5}, 0.25) == 2);
  CHECK(measure::quantile({1, 2, 3, 4}, 0.75) == 3.25);
  CHECK(measure::quantile({7}, 0.25) == 7);
}

TEST_CASE("a summary has the median, the quartiles' distance and the least", "[measure]") {
  const measure::Summary summary = measure::summarize({10, 30, 20, 50, 40});
  CHECK(summary.n == 5);
  CHECK(summary.median == 30);
  CHECK(summary.iqr == 20);
  CHECK(summary.min == 10);
  CHECK(summary.noise() == Approx(2.0 / 3));
}

TEST_CASE("one wild sample moves neither median nor IQR far", "[measure]") {
  const measure::Summary summary = measure::summarize({10, 10, 10, 10, 10, 10, 1000});
  CHECK(summary.median == 10);
  CHECK(summary.iqr == 0);
}

TEST_CASE("no samples summarise to zeros", "[measure]") {
  const measure::Summary summary = measure::summarize({});
  CHECK(summary.n == 0);
  CHECK(summary.median == 0);
  CHECK(summary.noise() == 0);
}
