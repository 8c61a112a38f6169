#include "launch/stream_memory.hpp"

#include <vector>

#include "support/catch.hpp"
#include "support/fake_driver.hpp"

using kda::Result;
using kda::launch::StreamMemory;
using kda::test::FakeDriver;

namespace {

void* taken(int ordinal) {
  const Result<StreamMemory> memory = StreamMemory::take(ordinal, 512, nullptr);
  INFO(memory.status().message());
  REQUIRE(memory);
  return memory->data();
}

}  // namespace

// A pool of another device's would give memory there, which kernels reach by the slow way, or not
// at all.
TEST_CASE("each device has a pool of its own, made once") {
  FakeDriver fake;
  for (int turn = 0; turn < 2; ++turn) {
    for (const int ordinal : {0, 1}) CHECK(taken(ordinal) != nullptr);
    CHECK(fake.pool_devices == std::vector<int>{0, 1});
  }
  CHECK(fake.pools_asked == std::vector<int>{0, 1, 0, 1});
  CHECK(fake.freed == 4);
}

// Else each call would make one, and keep it.
TEST_CASE("the pool that takes a lost one's place stays") {
  FakeDriver fake;
  taken(0);
  fake.lost_pools = fake.pools;
  for (int turn = 0; turn < 3; ++turn) taken(0);
  CHECK(fake.pools == 2);
}

TEST_CASE("no bytes are no memory, and ask the driver for nothing") {
  FakeDriver fake;
  const Result<StreamMemory> none = StreamMemory::take(0, 0, nullptr);
  REQUIRE(none);
  CHECK(none->data() == nullptr);
  CHECK(fake.calls == 0);
}
