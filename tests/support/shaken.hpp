// The chunked recurrence with each number that kernels hold in 16 bits off by its last bits.
#pragma once

#include <vector>

#include "reference/chunked.hpp"
#include "reference/recurrence.hpp"
#include "support/dice.hpp"

namespace kda::test {

class ShakenChunks {
 public:
  // in: kept, not copied.
  ShakenChunks(const reference::Inputs& in, int chunk, double roundoff);

  reference::Outputs run(Dice dice) const;

 private:
  using Matrix = std::vector<double>;

  Matrix off(Matrix a, Dice& dice, double least = 0) const;
  Matrix inverse_of(const Matrix& lower, Dice& dice) const;
  void advance(const reference::Chunk& chunk, Dice& dice, double* state, Matrix& o) const;

  const reference::Inputs& in_;
  int chunk_;
  double roundoff_;
  std::vector<reference::Chunk> chunks_;
};

}  // namespace kda::test
