// A start with every kernel at hand: no NVRTC; and a driver that fails at any call.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "base/file.hpp"
#include "cache/bundle.hpp"
#include "cache/survey.hpp"
#include "plan/kept.hpp"
#include "plan/plan.hpp"
#include "support/catch.hpp"
#include "support/fake_driver.hpp"
#include "support/scratch.hpp"

using namespace kda;
using test::contains;

namespace {

const Problem chunked{.heads = 2, .key_dim = 64, .value_dim = 64, .max_tokens = 256};
const Options named{.target = "sm_90a", .strategy = "chunk"};

// A plan of two kernels, as text.
std::string made() {
  const auto plans = plan::make_all({&chunked, 1}, named);
  return plans.front() ? plan::describe(**plans.front()) : plans.front().status().message();
}

}  // namespace

TEST_CASE("apart: make one plan", "[.]") { std::cout << made() << "\n"; }

static const char* const kApart = "apart: make one plan";

TEST_CASE("a start whose kernels are on disk opens no NVRTC", "[plan][compile]") {
  const test::Scratch scratch;
  std::vector<std::pair<std::string, std::string>> variables = {
      {"KDA_CACHE_DIR", scratch.path()}, {"KDA_LOG", "info"}, {"LD_DEBUG", "files"}};
  SECTION("of this user alone") {}
  SECTION("that others may write, too") {  // and the note of the toolchain that lies there
    REQUIRE(::chmod(scratch.path().c_str(), 02775) == 0);
    variables.emplace_back("KDA_CACHE_TRUST_SHARED", "1");
  }
  CHECK_THAT(test::run_case_apart(kApart, variables).output,
             contains("compiled in") && contains("libnvrtc"));
  const std::string warm = test::run_case_apart(kApart, variables).output;
  CHECK_THAT(warm, contains("from the disk cache"));
  // The loader says of every file that it opens or calls to initialise.
  CHECK(warm.find("calling init: ") != std::string::npos);
  for (std::size_t at = 0; (at = warm.find("calling init: ", at)) != std::string::npos; ++at) {
    const std::string file = warm.substr(at, warm.find('\n', at) - at);
    CHECK(file.find("libnvrtc") == std::string::npos);
  }
}

TEST_CASE("a bundle serves where there is neither a cache nor a compiler", "[plan][compile]") {
  const test::Scratch scratch;
  REQUIRE_THAT(test::run_case_apart(kApart, {{"KDA_CACHE_DIR", scratch / "c"}}).output,
               contains("compiled in"));
  std::vector<std::string> files;
  for (const cache::Filed& filed : cache::survey(scratch / "c")) {
    std::string contents;
    REQUIRE(base::file::read(filed.path, cache::kMaxFileBytes, contents) == 0);
    files.push_back(contents);
  }
  REQUIRE(files.size() == 2);
  REQUIRE(base::file::publish(scratch.path(), scratch / "k.kdab", cache::encode_bundle(files)) ==
          0);
  std::vector<std::pair<std::string, std::string>> variables = {
      {"KDA_CACHE_DIR", scratch / "other"},
      {"KDA_NVRTC_PATH", "/nonexistent"},
      {"KDA_JIT", "off"},
      {"KDA_CACHE_PATH", scratch / "k.kdab"}};
  CHECK_THAT(test::run_case_apart(kApart, variables).output, contains("from the bundle"));
  variables[1] = {"KDA_JIT", "off"};
  variables[3] = {"KDA_CACHE_PATH", ""};
  CHECK_THAT(test::run_case_apart(kApart, variables).output,
             contains("KDA_JIT=off") && contains("kda-tune bundle create"));
}

TEST_CASE("Options say what is done with the directory", "[plan][compile]") {
  const test::Scratch scratch;
  const Problem problem{.heads = 2, .key_dim = 16, .value_dim = 16, .max_tokens = 8};
  Options options{.target = "sm_89", .cache_dir = scratch / "c", .strategy = "recurrent"};
  const auto origin = [&](CacheMode mode) {
    plan::forget_all();
    options.cache_mode = mode;
    const auto plans = plan::make_all({&problem, 1}, options);
    REQUIRE(plans.front());
    return (*plans.front())->program.kernels.at(0).origin;
  };
  const auto entries = [&] { return cache::survey(scratch / "c").size(); };
  CHECK(origin(CacheMode::off) == cache::Origin::built);
  CHECK(origin(CacheMode::read_only) == cache::Origin::built);
  CHECK(entries() == 0);
  CHECK(origin(CacheMode::read_write) == cache::Origin::built);
  CHECK(entries() == 1);
  const test::Environment off("KDA_CACHE", "off");  // which Options overrule
  CHECK(origin(CacheMode::read_write) == cache::Origin::memory);
}

TEST_CASE("a driver that fails at any one call is an error that names it, and no more",
          "[plan][compile]") {
  const test::Scratch scratch;
  Options options{.cache_dir = scratch.path(), .strategy = "chunk"};
  const auto make = [&] { return std::move(plan::make_all({&chunked, 1}, options).front()); };
  for (const bool kept : {false, true}) {
    int failures = 0, calls = 1;
    for (int call = 0; call <= calls; ++call) {  // 0: none fails, and they are counted
      plan::forget_all();
      test::FakeDriver fake;
      if (kept) {
        REQUIRE(make());
        fake.calls = 0;
      }
      fake.fail_at = call;
      const plan::Made first = make();
      if (call == 0) calls = fake.calls;
      INFO("call " << call << " of " << calls << ": " << first.status().message());
      if (first) {
        for (const program::Kernel& kernel : (*first)->program.kernels) REQUIRE(kernel.module);
      } else {
        ++failures;
        REQUIRE(first.status().code() == Code::device_error);
        REQUIRE_THAT(first.status().message(), contains("cu"));
      }
      REQUIRE(fake.current == nullptr);
      fake.fail_at = 0;
      if (first) REQUIRE(make());  // whatever failed is not remembered
      plan::forget_all();
    }
    CHECK(calls > 8);
    if (!kept) CHECK(failures > 8);  // a kept plan is made anew instead
  }
}

// The bug: a bundle's kernel that the driver refuses, as one of a newer toolkit's may be, was the
// end, though an NVRTC was there to compile it.
TEST_CASE("a bundle's kernel that does not load is compiled", "[plan][compile]") {
  const test::Scratch scratch;
  const Problem problem{.heads = 2, .key_dim = 32, .value_dim = 16, .max_tokens = 64};
  const auto make = [&](const char* directory) {
    plan::forget_all();
    const Options options{.cache_dir = scratch / directory, .strategy = "recurrent"};
    return std::move(plan::make_all({&problem, 1}, options).front());
  };
  test::FakeDriver fake;
  REQUIRE(make("c"));
  std::vector<std::string> files;
  for (const cache::Filed& filed : cache::survey(scratch / "c")) {
    files.emplace_back();
    REQUIRE(base::file::read(filed.path, cache::kMaxFileBytes, files.back()) == 0);
  }
  // As another toolkit would have made it.
  cache::Stored stored;
  REQUIRE(cache::decode(files.at(0), stored).empty());
  cache::Key key;
  for (const auto& [field, value] : stored.key) {
    key.add(field, field == cache::kCompilerField ? "nvrtc 99" : value);
  }
  REQUIRE(base::file::publish(scratch.path(), scratch / "k.kdab",
                              cache::encode_bundle({cache::encode(key, stored.entry)})) == 0);
  const test::Environment path("KDA_CACHE_PATH", scratch / "k.kdab");
  {
    const plan::Made plan = make("d");
    REQUIRE(plan);
    CHECK((*plan)->program.kernels.at(0).origin == cache::Origin::bundle);
  }
  fake.refuse_with = CUDA_ERROR_NO_BINARY_FOR_GPU;
  fake.refuse_once = "cuLibraryLoadData";
  {
    const plan::Made plan = make("e");
    INFO(plan.status().message());
    REQUIRE(plan);
    CHECK((*plan)->program.kernels.at(0).origin == cache::Origin::built);
  }
  fake.refuse_once = "cuLibraryLoadData";
  {
    const test::Environment off("KDA_JIT", "off");
    CHECK_THAT(make("f").status().message(), contains("cuLibraryLoadData"));
  }
  // What has nothing to do with the code is not compiled for.
  fake.refuse_with = CUDA_ERROR_OUT_OF_MEMORY;
  fake.refuse_once = "cuLibraryLoadData";
  CHECK_THAT(make("g").status().message(), contains("cuLibraryLoadData"));
  CHECK(cache::survey(scratch / "g").empty());
  plan::forget_all();
}
