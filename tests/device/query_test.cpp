#include "device/device.hpp"
#include "support/catch.hpp"
#include "support/fake_driver.hpp"

using kda::device::query;
using kda::test::contains;
using kda::test::FakeDriver;

TEST_CASE("a device is what its driver says") {
  FakeDriver fake;
  const auto device = query(1);
  REQUIRE(device);
  CHECK(device->present());
  CHECK(device->ordinal == 1);
  CHECK(device->name == "Fake 1");
  CHECK(device->major == 9);
  CHECK(device->minor == 0);
  CHECK(device->multiprocessors == 132);
  CHECK(device->shared_per_block == 232448);
  CHECK(device->shared_per_multiprocessor == 233472);
  CHECK(device->l2_bytes == std::size_t{50} << 20);
  CHECK(device->memory_bandwidth == 2 * 3201e6 * 6144 / 8);
}

// The bug: with a bandwidth of 0 all chunks were expected to take for ever, and prefills went token
// by token.
TEST_CASE("a driver that names no memory clock leaves a bandwidth to plan by") {
  FakeDriver fake;
  fake.memory_clock = 0;
  const auto device = query(0);
  REQUIRE(device);
  CHECK(device->memory_bandwidth > 1e11);
}

TEST_CASE("-1 is the current context's device, else device 0") {
  FakeDriver fake;
  CHECK(query(-1)->ordinal == 0);
  fake.current = FakeDriver::own_context();
  fake.current_device = 1;
  CHECK(query(-1)->ordinal == 1);
  CHECK(query(0)->ordinal == 0);
}

TEST_CASE("a device that is not there is a device_error with their number") {
  FakeDriver fake;
  const auto device = query(2);
  REQUIRE_FALSE(device);
  CHECK(device.status().code() == kda::Code::device_error);
  CHECK_THAT(device.status().message(), contains("device 2") && contains("2 devices are visible"));
}

TEST_CASE("no driver, no device: the driver's own words come through") {
  FakeDriver fake;
  fake.init_result = CUDA_ERROR_NO_DEVICE;
  const auto device = query(0);
  REQUIRE_FALSE(device);
  CHECK(device.status().code() == kda::Code::device_error);
  CHECK_THAT(device.status().message(), contains("cuInit"));
}
