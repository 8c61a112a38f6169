// Samples to the few numbers that a row of results carries.
#pragma once

#include <cstddef>
#include <vector>

namespace kda::measure {

struct Summary {
  std::size_t n = 0;
  double median = 0;
  double iqr = 0;  // third quartile less first
  double min = 0;

  // iqr / median: how far two runs may differ without meaning anything.
  double noise() const { return median > 0 ? iqr / median : 0; }
};

// Linear between order statistics; fraction 0.5 is the median.  samples is not empty.
double quantile(std::vector<double> samples, double fraction);

// All zero when there are no samples.
Summary summarize(const std::vector<double>& samples);

}  // namespace kda::measure
