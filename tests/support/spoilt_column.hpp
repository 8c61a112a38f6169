// A V column of head 0 (K = V = 128) whose initial state has an infinite element: 0 times that is
// NaN, which all of the column's outputs show, and no other's.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "reference/recurrence.hpp"
#include "support/catch.hpp"

namespace kda::test {

inline constexpr int kSpoiltColumn = 77;

inline void spoil_column(reference::Tensors& tensors) {
  const float infinite = std::numeric_limits<float>::infinity();
  std::memcpy(tensors.initial_state.data() + (kSpoiltColumn * 128 + 100) * sizeof(float), &infinite,
              sizeof infinite);
}

// row: V columns of all heads.
inline void check_only_that_is_spoilt(const reference::Outputs& out, int row) {
  int finite = 0, others = 0;
  for (std::size_t i = 0; i < out.o.size(); ++i) {
    const bool spoilt = static_cast<int>(i % static_cast<std::size_t>(row)) == kSpoiltColumn;
    finite += spoilt && std::isfinite(out.o[i]) ? 1 : 0;
    others += !spoilt && !std::isfinite(out.o[i]) ? 1 : 0;
  }
  CHECK(finite == 0);
  CHECK(others == 0);
}

}  // namespace kda::test
