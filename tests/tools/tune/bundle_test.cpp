// kda-tune bundle beside other files, and of a cache that is not whole.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "cache/layout.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/json.hpp"
#include "tools/tune/kda_tune.hpp"

using namespace kda;
using kda::test::Json;

namespace {

// A bundle of one kernel, and the cache that it is made by.
test::Ran make_bundle(const std::string& file, const std::string& cache,
                      const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"bundle",    "create",      file,    "T=64 H=2 K=16 V=16",
                                    "-q",        "--arch",      "sm_89", "--strategy",
                                    "recurrent", "--cache-dir", cache};
  words.insert(words.end(), more.begin(), more.end());
  return test::kda_tune(std::move(words));
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

// The bug: the report took the place of the bundle that it was of, with exit code 0, a pipe was
// waited for, and on /dev/stdout both were mixed.
TEST_CASE("a bundle is a file by itself", "[tools]") {
  const test::Scratch scratch;
  const std::string file = scratch / "k.kdab", cache = scratch / "c", pipe = scratch / "pipe";
  CHECK(make_bundle(file, cache, {"--output", scratch / "./k.kdab"}).code == 2);
  CHECK_FALSE(std::filesystem::exists(cache));
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& place : {pipe, std::string("/dev/stdout"), scratch.path()}) {
    const test::Ran ran = make_bundle(place, cache);
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains(place));
  }
  REQUIRE(make_bundle(file, cache).code == 0);
  const std::string before = bytes_of(file);
  for (const char* command : {"ls", "verify"}) {
    const test::Ran ran = test::kda_tune({"bundle", command, file, "--output", file});
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains("is the bundle itself"));
  }
  CHECK(bytes_of(file) == before);
}

// The bug: damaged kernels were left out without a word, and the exit code was 0.
TEST_CASE("a bundle from a cache says what is left out of it", "[tools]") {
  const test::Scratch scratch;
  const std::string file = scratch / "k.kdab", dir = scratch / "c";
  REQUIRE(make_bundle(file, dir, {"--arch", "sm_90a"}).code == 0);
  const cache::Layout at(dir);
  const std::string entry = at.entries().at(0);
  REQUIRE(base::file::publish(scratch.path(), entry, "damaged") == 0);
  const std::vector<std::string> create = {"bundle",      "create", file,    "--from-cache",
                                           "--cache-dir", dir,      "--json"};
  const test::Ran ran = test::kda_tune(create);
  CHECK(ran.code == 1);
  const Json said = Json::parse(ran.out);
  CHECK(said["bundle"][0]["kernels"] == 1);
  REQUIRE(said["left out"].size() == 1);
  CHECK(test::text(said["left out"][0]["path"]) == entry);

  for (const std::string& each : at.entries()) {
    REQUIRE(base::file::publish(scratch.path(), each, "damaged") == 0);
  }
  const test::Ran none = test::kda_tune(create);
  CHECK(none.code == 1);
  CHECK_THAT(none.err, test::contains("no kernel to put into a bundle: " + dir));
  std::filesystem::remove_all(at.objects());
  std::ofstream(at.objects()) << "a file";
  const test::Ran hidden = test::kda_tune(create);
  CHECK(hidden.code == 1);
  CHECK_THAT(hidden.err, test::contains("the cache cannot be looked into"));
}
