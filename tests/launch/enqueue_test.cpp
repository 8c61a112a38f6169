#include "launch/enqueue.hpp"

#include <cuda.h>

#include "support/catch.hpp"
#include "support/fake_driver.hpp"

namespace launch = kda::launch;
using kda::Code;
using kda::test::contains;
using kda::test::FakeDriver;

namespace {

struct Args {
  int value = 42;
  char rest[500] = {};
};

launch::Module module_of(FakeDriver&) {
  auto module = launch::Module::load("cubin", "kernel", 0, 0, 1);
  REQUIRE(module);
  return *module;
}

CUstream stream() { return reinterpret_cast<CUstream>(0x77); }

}  // namespace

TEST_CASE("a launch carries its geometry, its stream and its one argument") {
  FakeDriver fake;
  const launch::Module module = module_of(fake);
  const Args args;
  const launch::Geometry geometry{.grid = {7, 5, 3}, .threads = 128, .shared_bytes = 70000};
  REQUIRE(launch::enqueue(module, geometry, &args, stream()));
  REQUIRE(fake.launches.size() == 1);
  const auto& sent = fake.launches[0];
  CHECK(sent.config.gridDimX == 7);
  CHECK(sent.config.gridDimY == 5);
  CHECK(sent.config.gridDimZ == 3);
  CHECK(sent.config.blockDimX == 128);
  CHECK(sent.config.blockDimY == 1);
  CHECK(sent.config.blockDimZ == 1);
  CHECK(sent.config.sharedMemBytes == 70000);
  CHECK(sent.config.hStream == stream());
  CHECK(sent.attributes.empty());
  CHECK(sent.function == static_cast<CUfunction>(module.kernel()));
  CHECK(sent.argument == 42);
}

TEST_CASE("clusters and overlap are asked for only where the stage wants them") {
  FakeDriver fake;
  const launch::Module module = module_of(fake);
  const Args args;
  REQUIRE(launch::enqueue(
      module, {.grid = {8, 1, 1}, .threads = 64, .cluster = 4, .overlaps_previous = true}, &args,
      nullptr));
  const auto& attributes = fake.launches.at(0).attributes;
  REQUIRE(attributes.size() == 2);
  CHECK(attributes[0].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  CHECK(attributes[0].value.clusterDim.x == 4);
  CHECK(attributes[0].value.clusterDim.y == 1);
  CHECK(attributes[0].value.clusterDim.z == 1);
  CHECK(attributes[1].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  CHECK(attributes[1].value.programmaticStreamSerializationAllowed == 1);
}

TEST_CASE("an empty grid launches nothing, whatever the dimension") {
  FakeDriver fake;
  const launch::Module module = module_of(fake);
  const Args args;
  CHECK(launch::enqueue(module, {.grid = {0, 4, 1}, .threads = 64}, &args, nullptr));
  CHECK(launch::enqueue(module, {.grid = {4, 0, 1}, .threads = 64}, &args, nullptr));
  CHECK(launch::enqueue(module, {.grid = {4, 4, 0}, .threads = 64}, &args, nullptr));
  CHECK(fake.launches.empty());
}

TEST_CASE("a refused launch says what it was and what would do") {
  FakeDriver fake;
  const launch::Module module = module_of(fake);
  const Args args;
  fake.launch_result = CUDA_ERROR_INVALID_CONTEXT;
  const kda::Status status =
      launch::enqueue(module, {.grid = {7, 5, 1}, .threads = 96}, &args, nullptr);
  CHECK(status.code() == Code::device_error);
  CHECK_THAT(status.message(), contains("7x5x1 blocks of 96 threads") &&
                                   contains("CUDA_ERROR_INVALID_CONTEXT") &&
                                   contains("no CUDA context is current in this thread"));
}

TEST_CASE("a module that was never loaded launches nothing") {
  const Args args;
  const kda::Status status =
      launch::enqueue(launch::Module(), {.grid = {1, 1, 1}, .threads = 32}, &args, nullptr);
  CHECK(status.code() == Code::device_error);
}
