#include "measure/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace kda::measure {

double quantile(std::vector<double> samples, double fraction) {
  std::sort(samples.begin(), samples.end());
  const double at = fraction * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  const double part = at - static_cast<double>(below);
  return samples[below] + part * (samples[above] - samples[below]);
}

Summary summarize(const std::vector<double>& samples) {
  if (samples.empty()) return {};
  return {.n = samples.size(),
          .median = quantile(samples, 0.5),
          .iqr = quantile(samples, 0.75) - quantile(samples, 0.25),
          .min = quantile(samples, 0)};
}

}  // namespace kda::measure
