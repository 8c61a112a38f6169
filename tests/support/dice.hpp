// Random numbers one after another, the same everywhere.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/random.hpp"

namespace kda::test {

class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t stream) : random_(seed, stream) {}

  // In (0, 1).
  double uniform() { return random_.uniform(next_++); }
  // In [0, n).
  int below(int n) { return std::min(n - 1, static_cast<int>(uniform() * n)); }
  // N(0, 1).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  template <class T, std::size_t n>
  T one_of(const std::array<T, n>& all) {
    return all[static_cast<std::size_t>(below(static_cast<int>(n)))];
  }
  // Of length 1.
  std::vector<double> direction(int dim) {
    std::vector<double> out(static_cast<std::size_t>(dim));
    double squares = 0;
    for (double& x : out) {
      x = normal();
      squares += x * x;
    }
    for (double& x : out) x /= std::sqrt(squares);
    return out;
  }

 private:
  reference::Random random_;
  std::uint64_t next_ = 0;
};

}  // namespace kda::test
