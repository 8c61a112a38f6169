#include "measure/rotation.hpp"

#include "support/catch.hpp"

using namespace kda;

TEST_CASE("the rotation is far past the L2 and within the memory", "[measure]") {
  CHECK(measure::rotation(1e9, 60e6, 140e9) == 2);
  CHECK(measure::rotation(50e6, 60e6, 140e9) == 6);
  CHECK(measure::rotation(1e5, 60e6, 140e9) == 64);
  CHECK(measure::rotation(1e9, 60e6, 1.5e9) == 1);
  CHECK(measure::rotation(1e9, 60e6, 0.5e9) == 0);
}
