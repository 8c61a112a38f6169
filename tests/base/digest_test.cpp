#include "base/digest.hpp"

#include "support/catch.hpp"

using kda::base::digest;

TEST_CASE("the digest is XXH3-128, the high half first") {
  CHECK(digest("") == "99aa06d3014798d86001c324468d497f");
}

TEST_CASE("the digest tells every one-bit change of a text apart") {
  const std::string text(300, 'k');
  const std::string before = digest(text);
  CHECK(before.size() == 32);
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    REQUIRE(digest(changed) != before);
  }
}
