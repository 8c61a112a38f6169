#include "launch/driver.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <iostream>

#include "support/catch.hpp"
#include "support/fake_driver.hpp"
#include "support/scratch.hpp"

namespace launch = kda::launch;
using kda::Code;
using kda::test::contains;
using kda::test::FakeDriver;
using kda::test::run_case_apart;

TEST_CASE("apart: open the driver and say how it went", "[.]") {
  const auto driver = launch::driver();
  std::cout << name_of(driver.status().code()) << ": " << driver.status().message() << "\n";
}

static const char* const kOpen = "apart: open the driver and say how it went";

TEST_CASE("without libcuda the driver is a device_error that says what would do") {
  const auto apart = run_case_apart(kOpen, {{"KDA_LIBCUDA_PATH", "/nowhere/libcuda.so.1"}});
  CHECK_THAT(apart.output, contains("device_error: no CUDA driver: /nowhere/libcuda.so.1: cannot"));
  CHECK_THAT(apart.output, contains("install NVIDIA's driver") && contains("Options::target"));
}

TEST_CASE("a library that is not libcuda is refused by the call it lacks") {
  const auto apart = run_case_apart(kOpen, {{"KDA_LIBCUDA_PATH", "libm.so.6"}});
  CHECK_THAT(apart.output, contains("device_error: the CUDA driver lacks cu"));
}

TEST_CASE("a driver too old is refused by the call it lacks; optional calls may be missing") {
  FakeDriver fake;
  SECTION("required") {
    fake.missing = "cuLibraryLoadData";
    const auto driver = launch::driver();
    REQUIRE_FALSE(driver);
    CHECK(driver.status().code() == Code::device_error);
    CHECK_THAT(driver.status().message(), contains("cuLibraryLoadData") && contains("12.0"));
  }
  SECTION("optional") {
    fake.missing = "cuFuncLoad";
    const auto driver = launch::driver();
    REQUIRE(driver);
    CHECK((*driver)->FuncLoad == nullptr);
    CHECK((*driver)->version == 12040);
  }
  SECTION("a newer twin") {
    fake.missing = "cuEventElapsedTime_v2";
    CHECK(launch::driver());
  }
}

TEST_CASE("a cuInit that fails is kept, with the driver's name for it") {
  FakeDriver fake;
  fake.init_result = CUDA_ERROR_NO_DEVICE;
  const auto first = launch::driver();
  REQUIRE_FALSE(first);
  CHECK_THAT(first.status().message(),
             contains("cuInit: CUDA_ERROR_OTHER (as the driver puts it)") &&
                 contains("CUDA_VISIBLE_DEVICES"));
  fake.init_result = CUDA_SUCCESS;
  CHECK_FALSE(launch::driver());
}

// The bug: where there are no device nodes yet, and a user who is not root, cuInit forks, and the
// fork waited for ever for the mutex under which the driver is opened.
TEST_CASE("a cuInit that forks is waited for, and by its child, too") {
  FakeDriver fake;
  fake.init_forks = true;
  ::alarm(60);
  CHECK(launch::driver());
  ::alarm(0);
}

TEST_CASE("check names the call and what the driver says") {
  FakeDriver fake;
  REQUIRE(launch::driver());
  CHECK(launch::check(CUDA_SUCCESS, "cuX").ok());
  const kda::Status status = launch::check(CUDA_ERROR_INVALID_CONTEXT, "cuX");
  CHECK(status.code() == Code::device_error);
  CHECK_THAT(status.message(), contains("cuX: CUDA_ERROR_INVALID_CONTEXT") &&
                                   contains("call cudaSetDevice or cuCtxSetCurrent"));
}

TEST_CASE("a forked child of a process that used CUDA is told so") {
  FakeDriver fake;
  REQUIRE(launch::driver());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto driver = launch::driver();
    const bool told = !driver && driver.status().code() == Code::device_error &&
                      driver.status().message().find("fork") != std::string::npos;
    ::_exit(told ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(launch::driver());  // the parent goes on
}

// The bug: the inner one gave the machine's own libcuda back, which then was to unload the outer
// one's libraries and, where there is a GPU, read what was no library of its own.
TEST_CASE("a fake driver within another's scope leaves the other's behind") {
  FakeDriver outer;
  outer.devices = 1;
  { const FakeDriver inner; }
  const auto driver = launch::driver();
  REQUIRE(driver);
  int devices = 0;
  (*driver)->DeviceGetCount(&devices);
  CHECK(devices == 1);
}
