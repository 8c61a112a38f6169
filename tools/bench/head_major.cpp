#include "bench/head_major.hpp"

#include <cstring>

namespace kda::bench {

reference::Bytes swapped(const reference::Bytes& from, std::size_t N, std::size_t A,
                         std::size_t B) {
  reference::Bytes to(from.size());
  const std::size_t row = from.size() / (N * A * B);
  for (std::size_t n = 0; n < N; ++n)
    for (std::size_t a = 0; a < A; ++a)
      for (std::size_t b = 0; b < B; ++b)
        std::memcpy(to.data() + ((n * B + b) * A + a) * row,
                    from.data() + ((n * A + a) * B + b) * row, row);
  return to;
}

}  // namespace kda::bench
