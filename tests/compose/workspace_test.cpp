#include "compose/workspace.hpp"

#include "support/catch.hpp"

using namespace kda;

TEST_CASE("slices are aligned, disjoint and counted", "[compose]") {
  compose::Workspace workspace;
  CHECK(workspace.bytes() == 0);
  CHECK(workspace.take(1) == 0);
  CHECK(workspace.take(256) == 256);
  CHECK(workspace.take(0) == 512);
  CHECK(workspace.take(257) == 512);
  CHECK(workspace.bytes() == 1024);
}
