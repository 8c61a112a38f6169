#include "launch/module.hpp"

#include <thread>

#include "support/catch.hpp"
#include "support/fake_driver.hpp"

using kda::Code;
using kda::Result;
using kda::launch::Module;
using kda::test::contains;
using kda::test::FakeDriver;

namespace {

// The most that a device was told to allow.
std::vector<int> shared_allowed(const FakeDriver& fake) {
  std::vector<int> values;
  for (const auto& attribute : fake.attributes) {
    if (attribute.which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
      values.push_back(attribute.value);
    }
  }
  return values;
}

}  // namespace

TEST_CASE("a cubin is one library in the process, unloaded with its last module") {
  FakeDriver fake;
  {
    const Result<Module> one = Module::load("cubin a", "kernel", 0, 1000, 1);
    const Result<Module> two = Module::load("cubin a", "kernel", 0, 1000, 1);
    REQUIRE(one);
    REQUIRE(two);
    CHECK(one->kernel() == two->kernel());
    CHECK(fake.libraries_loaded == 1);
    const Result<Module> other = Module::load("cubin b", "kernel", 0, 1000, 1);
    REQUIRE(other);
    CHECK(other->kernel() != one->kernel());
    CHECK(fake.libraries_loaded == 2);
    CHECK(fake.libraries_unloaded == 0);
  }
  CHECK(fake.libraries_unloaded == 2);
  CHECK(fake.primaries_released == fake.primaries_retained);
  CHECK(Module::load("cubin a", "kernel", 0, 1000, 1));
  CHECK(fake.libraries_loaded == 3);
}

// The last plan of a kernel, let go by any thread, ended captures of others: unloading does in
// their strictest mode (H200, 580).
TEST_CASE("kernels come and go without ending a capture") {
  FakeDriver fake;
  {
    Result<Module> one = Module::load("cubin a", "kernel", 0, 1000, 1);
    REQUIRE(one);
    REQUIRE(Module::renew({&*one, 1}, 0));
  }
  CHECK(fake.libraries_unloaded == 1);
  CHECK(fake.breaking_calls == 0);
  CHECK(fake.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

// DeepJIT#15, cuopt#750: another plan of the same kernel lowered the limit under a running one.
TEST_CASE("allowed shared memory grows and never shrinks") {
  FakeDriver fake;
  const auto small = Module::load("cubin", "kernel", 0, 50000, 1);
  const auto large = Module::load("cubin", "kernel", 0, 90000, 1);
  const auto again = Module::load("cubin", "kernel", 0, 60000, 1);
  CHECK(shared_allowed(fake) == std::vector<int>{50000, 90000, 90000});
  const auto elsewhere = Module::load("cubin", "kernel", 1, 60000, 1);
  CHECK(shared_allowed(fake) == std::vector<int>{50000, 90000, 90000, 60000});
  CHECK(fake.attributes.back().device == 1);
}

TEST_CASE("clusters above the portable size are asked for") {
  FakeDriver fake;
  const auto portable = Module::load("cubin", "kernel", 0, 0, 8);
  CHECK(fake.attributes.empty());
  const auto large = Module::load("cubin", "kernel", 0, 0, 16);
  REQUIRE(fake.attributes.size() == 1);
  CHECK(fake.attributes[0].which == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  CHECK(fake.attributes[0].value == 1);
}

TEST_CASE("code is loaded at once, in the thread's context or the device's primary one") {
  FakeDriver fake;
  SECTION("no context: the primary one, for the load alone") {
    const auto module = Module::load("cubin", "kernel", 1, 0, 1);
    REQUIRE(module);
    CHECK(fake.context_of_load == FakeDriver::primary(1));
    CHECK(fake.current == nullptr);
    CHECK(fake.primaries_released == 0);  // the code lives in it
  }
  SECTION("the application's own context on that device") {
    fake.current = FakeDriver::own_context();
    const auto module = Module::load("cubin", "kernel", 0, 0, 1);
    REQUIRE(module);
    CHECK(fake.context_of_load == FakeDriver::own_context());
    CHECK(fake.current == FakeDriver::own_context());
    CHECK(fake.primaries_retained == 0);
  }
  SECTION("a context of another device: left as it was") {
    fake.current = FakeDriver::own_context();
    const auto module = Module::load("cubin", "kernel", 1, 0, 1);
    REQUIRE(module);
    CHECK(fake.context_of_load == FakeDriver::primary(1));
    CHECK(fake.current == FakeDriver::own_context());
  }
  SECTION("a driver without cuFuncLoad") {
    fake.missing = "cuFuncLoad";
    CHECK(Module::load("cubin", "kernel", 0, 0, 1));
  }
  CHECK(fake.functions_loaded == 1);
}

// An H200, driver 580: a test's last holder had let the primary context go, the thread kept it
// current, and cuKernelGetFunction said CUDA_ERROR_CONTEXT_IS_DESTROYED.
TEST_CASE("a destroyed context counts as none") {
  FakeDriver fake;
  SECTION("the device's primary one, which nobody holds any more") {
    fake.current = FakeDriver::primary(0);
    const auto module = Module::load("cubin", "kernel", 0, 1000, 1);
    INFO(module.status().message());
    REQUIRE(module);
    CHECK(fake.context_of_load == FakeDriver::primary(0));
    CHECK(fake.current == nullptr);
    CHECK(fake.primaries_released < fake.primaries_retained);  // the code lives in it
  }
  SECTION("the application's own") {
    fake.current = FakeDriver::own_context();
    fake.alive.clear();
    const auto module = Module::load("cubin", "kernel", 0, 1000, 1);
    INFO(module.status().message());
    REQUIRE(module);
    CHECK(fake.context_of_load == FakeDriver::primary(0));
    CHECK(fake.current == nullptr);
  }
  SECTION("another device's") {
    fake.current = FakeDriver::own_context();
    fake.alive.clear();
    const auto module = Module::load("cubin", "kernel", 1, 1000, 1);
    INFO(module.status().message());
    REQUIRE(module);
    CHECK(fake.context_of_load == FakeDriver::primary(1));
    CHECK(fake.current == nullptr);
  }
  CHECK(fake.functions_loaded == 1);
  CHECK(fake.primaries_released == fake.primaries_retained);
  CHECK(fake.events == 0);
}

TEST_CASE("code stays when the application lets the primary context go") {
  FakeDriver fake;
  fake.alive.insert(FakeDriver::primary(0));
  fake.primaries_retained = 1;  // the application's
  fake.current = FakeDriver::primary(0);
  {
    const auto module = Module::load("cubin", "kernel", 0, 0, 1);
    const auto again = Module::load("cubin", "kernel", 0, 0, 1);
    REQUIRE(module);
    REQUIRE(again);
    CHECK(fake.context_of_load == FakeDriver::primary(0));
    CHECK(fake.current == FakeDriver::primary(0));
    CHECK(fake.primaries_retained - fake.primaries_released == 2);
  }
  CHECK(fake.primaries_retained - fake.primaries_released == 1);
}

TEST_CASE("a library that outlived a reset of its context is made ready again") {
  FakeDriver fake;
  const auto before = Module::load("cubin", "kernel", 0, 90000, 1);
  REQUIRE(before);
  fake.alive.clear();  // cuDevicePrimaryCtxReset
  fake.current = FakeDriver::primary(0);
  const auto after = Module::load("cubin", "kernel", 0, 50000, 1);
  INFO(after.status().message());
  REQUIRE(after);
  CHECK(fake.libraries_loaded == 1);
  CHECK(fake.functions_loaded == 2);
  CHECK(shared_allowed(fake) == std::vector<int>{90000, 90000});
}

TEST_CASE("what the driver refuses is a device_error, and the context stays as it was") {
  FakeDriver fake;
  const auto absent = Module::load("cubin", "absent", 0, 0, 1);
  REQUIRE_FALSE(absent);
  CHECK(absent.status().code() == Code::device_error);
  CHECK_THAT(absent.status().message(), contains("absent"));
  CHECK_FALSE(Module::load("cubin", "kernel", 7, 0, 1));
  fake.load_result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  const auto refused = Module::load("cubin other", "kernel", 0, 0, 1);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.status().message(), contains("cuLibraryLoadData"));
  CHECK(fake.current == nullptr);
  CHECK(fake.primaries_released == fake.primaries_retained);
  fake.load_result = CUDA_SUCCESS;
  CHECK(Module::load("cubin other", "kernel", 0, 0, 1));  // the refusal is not remembered
}

TEST_CASE("an empty module holds nothing") {
  const Module none;
  CHECK_FALSE(none);
  CHECK(none.kernel() == nullptr);
}

// At exit the driver goes before the plans do.
TEST_CASE("a module may outlive its driver") {
  Result<Module> module = kda::Status(Code::device_error, "");
  {
    FakeDriver fake;
    fake.current = FakeDriver::own_context();
    module = Module::load("cubin that outlives", "kernel", 0, 0, 1);
    REQUIRE(module);
  }
  FakeDriver next;
  next.init_result = CUDA_ERROR_DEINITIALIZED;
  module = kda::Status();
  CHECK(next.libraries_unloaded == 0);
}
