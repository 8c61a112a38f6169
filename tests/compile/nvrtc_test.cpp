#include "compile/nvrtc.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "compile/elf.hpp"
#include "compile/kernels.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace compile = kda::compile;
using kda::Code;
using kda::test::contains;
using kda::test::job_for;

TEST_CASE("a kernel compiles for devices that are not here") {
  for (const char* target : {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
    INFO(target);
    const auto build = compile::compile(
        job_for(target,
                "__shared__ int s[64]; s[threadIdx.x] = *out; __syncthreads(); *out = s[1];"),
        {});
    INFO(build.status().message());
    REQUIRE(build);
    CHECK(compile::check_cubin(build->cubin, "kernel").empty());
    CHECK(build->resources.registers > 0);
    CHECK(build->resources.static_shared_bytes == 256);
    CHECK(build->resources.spill_bytes == 0);
    CHECK(build->resources.compile_milliseconds > 0);
  }
}

TEST_CASE("headers come from the table and are named as their includers name them") {
  compile::Job job = job_for("sm_90a", "*out = two() + KDA_ONE;");
  job.source = "#include \"step/two.cuh\"\n" + job.source;
  const compile::Header headers[] = {
      {"step/two.cuh", "#include \"base/one.h\"\n__device__ int two() { return 2 * KDA_ONE; }\n"},
      {"base/one.h", "#define KDA_ONE 1\n"}};
  CHECK(compile::compile(job, headers));
  const auto alone = compile::compile(job, {});
  REQUIRE_FALSE(alone);
  CHECK_THAT(alone.status().message(), contains("step/two.cuh"));
}

TEST_CASE("the same job gives the same bytes") {
  const auto first = compile::compile(job_for("sm_90a"), {});
  const auto second = compile::compile(job_for("sm_90a"), {});
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->cubin == second->cubin);
}

// NVRTC 13.0 answers GetCUBINSize with success and 0 bytes after a failed compile.
TEST_CASE("a refused source fails with its log, and yields no cubin") {
  const auto build = compile::compile(job_for("sm_90a", "*out = undeclared;"), {});
  REQUIRE_FALSE(build);
  CHECK(build.status().code() == Code::compile_failed);
  CHECK_THAT(build.status().message(), contains("kda.cu(1)") &&
                                           contains("\"undeclared\" is undefined") &&
                                           contains("sm_90a"));
}

TEST_CASE("a failed assertion names its own line and text") {
  compile::Job job = job_for("sm_89");
  job.source += "#include \"part.cuh\"\n";
  const compile::Header headers[] = {
      {"part.cuh", "\nstatic_assert(sizeof(int) == 5, \"threads must be 128\");\n"}};
  const auto build = compile::compile(job, headers);
  REQUIRE_FALSE(build);
  CHECK_THAT(build.status().message(), contains("part.cuh(2)") && contains("threads must be 128"));
}

TEST_CASE("a target NVRTC does not know fails, naming it") {
  const auto build = compile::compile(job_for("sm_999"), {});
  REQUIRE_FALSE(build);
  CHECK(build.status().code() == Code::compile_failed);
  CHECK_THAT(build.status().message(), contains("sm_999") && contains("gpu-architecture"));
}

TEST_CASE("a source without the kernel it promised fails, naming the kernel") {
  compile::Job job = job_for("sm_90a");
  job.entry = "other";
  const auto build = compile::compile(job, {});
  REQUIRE_FALSE(build);
  CHECK_THAT(build.status().message(), contains("defines no kernel other"));
}

TEST_CASE("spills and stack are reported where there are some") {
  compile::Job job = job_for("sm_89",
                             "int a[200]; for (int i = 0; i < 200; ++i) a[i] = out[i]; "
                             "for (int i = 0; i < 200; ++i) out[i] = a[out[i] & 127];");
  const auto build = compile::compile(job, {});
  REQUIRE(build);
  CHECK(build->resources.stack_bytes >= 512);
}

TEST_CASE("PTX is text for the target") {
  const auto ptx = compile::compile_to_ptx(job_for("sm_90a"), {});
  REQUIRE(ptx);
  CHECK_THAT(*ptx, contains(".target sm_90a") && contains(".entry kernel"));
  CHECK_FALSE(compile::compile_to_ptx(job_for("sm_90a", "?"), {}));
}

TEST_CASE("threads compile side by side") {
  std::vector<std::string> cubins(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < cubins.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto build =
          compile::compile(job_for("sm_90a", "*out = " + std::to_string(i % 2) + ";"), {});
      if (build) cubins[i] = build->cubin;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < cubins.size(); ++i) {
    CHECK_FALSE(cubins[i].empty());
    CHECK(cubins[i] == cubins[i % 2]);
  }
  CHECK(cubins[0] != cubins[1]);
}

TEST_CASE("options name the target first and the same flags each time") {
  const std::vector<std::string> flags = compile::options("sm_90a");
  CHECK(flags == compile::options("sm_90a"));
  CHECK(flags.front() == "--gpu-architecture=sm_90a");
  CHECK(std::count(flags.begin(), flags.end(), "--ptxas-options=-v") == 1);
  CHECK(std::none_of(flags.begin(), flags.end(), [](const std::string& flag) {
    return flag.starts_with("-I") || flag.starts_with("--include");
  }));
}

TEST_CASE("the identity names release and build, and flags that NVRTC adds by itself") {
  const auto plain = compile::identity();
  REQUIRE(plain);
  CHECK(plain->starts_with("nvrtc 1"));
  CHECK_THAT(*plain, contains(" CL-") && contains(" V1"));
  const kda::test::Environment set("NVRTC_APPEND_FLAGS", "-G");
  CHECK(*compile::identity() == *plain + " NVRTC_APPEND_FLAGS=\"-G\"");
}

// The bug: a child that was forked while another thread compiled waited in NVRTC for ever, for a
// lock of that thread's, at its own first compile.
TEST_CASE("a child forked amid a compile is told so, and does not wait") {
  std::string slow;
  for (int i = 0; i < 3000; ++i) slow += "*out = *out * " + std::to_string(i) + " + clock();";
  REQUIRE(compile::compile(job_for("sm_90a"), {}));  // NVRTC is open
  std::atomic<bool> ended{false};
  std::thread other([&] {
    (void)compile::compile(job_for("sm_90a", slow), {});
    ended = true;
  });
  constexpr int kTold = 7;
  int code = 0;
  while (!ended && code != kTold) {  // one that was forked before the compile began compiles
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    code = kda::test::in_child([] {
      const auto build = compile::compile(job_for("sm_90a"), {});
      if (build) return 1;
      const bool told =
          build.status().message().find("forked while another thread") != std::string::npos;
      return told ? kTold : 2;
    });
    CHECK((code == 1 || code == kTold));
  }
  other.join();
  CHECK(code == kTold);
  // Where nobody compiles a child does as its parent.
  CHECK(kda::test::in_child([] { return compile::compile(job_for("sm_90a"), {}) ? 0 : 1; }) == 0);
}
