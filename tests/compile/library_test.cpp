#include "compile/library.hpp"

#include <dlfcn.h>

#include <iostream>

#include "compile/kernels.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

namespace compile = kda::compile;
using kda::Code;
using kda::test::contains;
using kda::test::Environment;
using kda::test::run_case_apart;
using kda::test::Scratch;

TEST_CASE("apart: compile and say how it went", "[.]") {
  const auto build = compile::compile(kda::test::job_for("sm_90a"), {});
  std::cout << name_of(build.status().code()) << ": " << build.status().message() << "\n";
  const auto path = compile::library_path();
  if (path) std::cout << "from " << *path << "\n";
}

static const char* const kCompile = "apart: compile and say how it went";

TEST_CASE("without NVRTC a compile fails, listing the paths tried and what would do") {
  const Scratch scratch;
  const auto apart = run_case_apart(
      kCompile, {{"KDA_NVRTC_PATH", "/nowhere/libnvrtc.so.13"}, {"KDA_CACHE_DIR", scratch.path()}});
  CHECK_THAT(apart.output, contains("compile_failed: no usable NVRTC; tried:"));
  CHECK_THAT(apart.output, contains("/nowhere/libnvrtc.so.13: cannot open shared object file"));
  // The bug: the remedy was to set what named the path that is not there.
  CHECK_THAT(apart.output, contains("KDA_NVRTC_PATH names that, and no other is tried; unset it"));
}

TEST_CASE("a library that is not NVRTC is refused by the call it lacks") {
  const Scratch scratch;
  const auto apart = run_case_apart(
      kCompile, {{"KDA_NVRTC_PATH", "libm.so.6"}, {"KDA_CACHE_DIR", scratch.path()}});
  CHECK_THAT(apart.output, contains("compile_failed") && contains("libm.so.6: lacks nvrtc"));
}

// One that compiled nothing ended the search, whatever lay behind it: a torch's, which is loaded
// first, stood before the toolkit's.
TEST_CASE("a library that does not compile is passed by for the next one") {
  const auto path = compile::library_path();
  REQUIRE(path);
  const std::string fake = std::string(KDA_BINARY_DIR) + "/tests/fake";
  const std::string real = path->substr(0, path->find_last_of('/'));
  const Scratch scratch;
  const auto apart =
      run_case_apart(kCompile, {{"KDA_NVRTC_PATH", ""},
                                {"CUDA_HOME", fake},
                                {"CUDA_PATH", real.substr(0, real.find_last_of('/'))},
                                {"KDA_CACHE_DIR", scratch.path()},
                                {"KDA_LOG", "info"}});
  CHECK_THAT(apart.output, contains("NVRTC 13.9 from " + fake) &&
                               contains("does not sign what it compiles; looking on"));
  CHECK_THAT(apart.output, contains("ok: \n") && contains("from " + real));
}

TEST_CASE("apart: compile beside a library that is loaded", "[.]") {
  REQUIRE(::dlopen((std::string(KDA_BINARY_DIR) + "/tests/fake/lib64/libnvrtc.so.13").c_str(),
                   RTLD_NOW) != nullptr);
  (void)compile::compile(kda::test::job_for("sm_90a"), {});
}

TEST_CASE("what the program has loaded comes before what is found") {
  const auto path = compile::library_path();
  REQUIRE(path);
  const std::string real = path->substr(0, path->find_last_of('/'));
  const Scratch scratch;
  const auto apart = run_case_apart("apart: compile beside a library that is loaded",
                                    {{"KDA_NVRTC_PATH", ""},
                                     {"CUDA_HOME", real.substr(0, real.find_last_of('/'))},
                                     {"KDA_CACHE_DIR", scratch.path()},
                                     {"KDA_LOG", "info"}});
  const std::size_t fake = apart.output.find("NVRTC 13.9 from " KDA_BINARY_DIR "/tests/fake");
  REQUIRE(fake != std::string::npos);
  CHECK(fake < apart.output.find("from " + real));
}

TEST_CASE("that it does not compile is said where nothing else is left") {
  const Scratch scratch;
  const auto apart =
      run_case_apart(kCompile, {{"KDA_NVRTC_PATH", std::string(KDA_BINARY_DIR) + "/tests/fake"},
                                {"KDA_CACHE_DIR", scratch.path()}});
  CHECK_THAT(apart.output, contains("compile_failed: no usable NVRTC; tried:") &&
                               contains("libnvrtc.so.13: does not compile an empty program"));
}

TEST_CASE("KDA_NVRTC_PATH names the library or its directory") {
  const auto path = compile::library_path();
  REQUIRE(path);
  const std::string directory = path->substr(0, path->find_last_of('/'));
  for (const std::string& named : {*path, directory}) {
    INFO(named);
    const Scratch scratch;
    const auto apart =
        run_case_apart(kCompile, {{"KDA_NVRTC_PATH", named}, {"KDA_CACHE_DIR", scratch.path()}});
    CHECK_THAT(apart.output, contains("ok: \n") && contains("from " + directory));
  }
}

TEST_CASE("what decides the choice of library changes with the environment") {
  const std::string before = compile::search_inputs();
  CHECK(compile::search_inputs() == before);
  const Environment set("KDA_NVRTC_PATH", "/elsewhere");
  CHECK(compile::search_inputs() != before);
}
