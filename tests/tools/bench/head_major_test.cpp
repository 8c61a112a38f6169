#include "bench/head_major.hpp"

#include "support/catch.hpp"

using namespace kda;

TEST_CASE("tokens and heads change places, rows stay whole", "[tools]") {
  // Two sequences of three tokens and two heads, rows of two bytes: (sequence, token, head, byte).
  reference::Bytes from;
  for (int n = 0; n < 2; ++n)
    for (int t = 0; t < 3; ++t)
      for (int h = 0; h < 2; ++h)
        for (int c = 0; c < 2; ++c)
          from.push_back(static_cast<std::byte>(n * 64 + t * 16 + h * 4 + c));
  const reference::Bytes to = bench::swapped(from, 2, 3, 2);
  std::size_t at = 0;
  for (int n = 0; n < 2; ++n)
    for (int h = 0; h < 2; ++h)
      for (int t = 0; t < 3; ++t)
        for (int c = 0; c < 2; ++c)
          CHECK(to[at++] == static_cast<std::byte>(n * 64 + t * 16 + h * 4 + c));
  CHECK(bench::swapped(to, 2, 2, 3) == from);
}
