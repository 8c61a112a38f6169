// kda-tune doctor sees the places that the environment names as the library does.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "cache/layout.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/json.hpp"
#include "tools/tune/kda_tune.hpp"
#include "tune/records.hpp"

using namespace kda;
using kda::test::Json;

namespace {

// "state found" of each row of this check, a line each.
std::string rows_of(const char* check) {
  const test::Ran ran = test::kda_tune({"doctor", "--json"});
  INFO(ran.err);
  const Json document = Json::parse(ran.out);
  std::string rows;
  bool broken = false;
  for (const Json& row : document["checks"]) {
    broken = broken || row["state"] == "bad";
    if (row["check"] == check) {
      rows += test::text(row["state"]) + " " + test::text(row["found"]) + "\n";
    }
  }
  CHECK(ran.code == (broken ? 1 : 0));
  return rows;
}

}  // namespace

// The bug: doctor called "/a: /b.kdab" bad, which the library reads, and with KDA_CACHE=off it
// called a bundle ok that the library does not read.
TEST_CASE("doctor reads KDA_CACHE_PATH as the library does", "[tools]") {
  const test::Scratch scratch;
  const std::string one = scratch / "one", two = scratch / "two";
  REQUIRE(base::file::make_directories(one) == 0);
  REQUIRE(base::file::make_directories(two) == 0);
  const test::Environment here("KDA_CACHE_DIR", scratch / "c"),
      path("KDA_CACHE_PATH", one + ": " + two + " : ");
  CHECK(rows_of("KDA_CACHE_PATH") ==
        "ok " + one + ": a cache of 0 entries\nok " + two + ": a cache of 0 entries\n");
  const test::Environment off("KDA_CACHE", "off");
  CHECK(rows_of("KDA_CACHE_PATH") == "none KDA_CACHE=off: KDA_CACHE_PATH is not read\n");
}

// The bug: doctor never looked at measurements: a directory that the library refuses, damaged
// records and places that are not there passed as fit.
TEST_CASE("doctor looks at the measurements", "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "w";
  const test::Environment cache("KDA_CACHE_DIR", scratch / "c"), here("KDA_WISDOM_DIR", dir);
  CHECK(rows_of("measurements") == "ok " + dir + ": 0 records\n");
  const tune::Record record = test::record_of(test::problem_in_words("T=300 H=2"));
  REQUIRE(tune::Wisdom(dir, "").add(record));
  CHECK(rows_of("measurements") == "ok " + dir + ": 1 records\n");

  REQUIRE(::chmod(dir.c_str(), 0777) == 0);
  CHECK_THAT(rows_of("measurements"), test::contains("bad the library does not use them: " + dir +
                                                     " may be written by others"));
  REQUIRE(::chmod(dir.c_str(), 0700) == 0);
  const std::string environment = dir + "/v1/" + tune::digest(record.environment);
  std::ofstream(environment + "/0123456789abcdef.json") << "damage";
  CHECK_THAT(rows_of("measurements"), test::contains("kda-tune wisdom verify"));
  {
    const test::Environment file("KDA_WISDOM_DIR", environment + "/manifest.json");
    CHECK_THAT(rows_of("measurements"), test::contains("bad " + environment));
  }
  const test::Environment off("KDA_CACHE", "off");
  CHECK_THAT(rows_of("measurements"), test::contains("none KDA_CACHE=off"));
}

// The bug: KDA_WISDOM_PATH=/nope passed, as if measurements were read there.
TEST_CASE("doctor looks at every place of KDA_WISDOM_PATH", "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "w", file = scratch / "file", none = scratch / "none";
  std::ofstream(file) << "no directory";
  REQUIRE(tune::Wisdom(dir, "").add(test::record_of(test::problem_in_words("T=300 H=2"))));
  const test::Environment cache("KDA_CACHE_DIR", scratch / "c"), here("KDA_WISDOM_DIR", nullptr),
      path("KDA_WISDOM_PATH", dir + ":" + none + ":" + file);
  const std::string rows = rows_of("KDA_WISDOM_PATH");
  CHECK_THAT(rows, test::contains("ok " + dir + ": 1 records\n"));
  CHECK_THAT(rows, test::contains("bad " + none + ": No such file"));
  CHECK_THAT(rows, test::contains("bad " + file + ": Not a directory"));
  const test::Environment off("KDA_CACHE", "off");
  CHECK(rows_of("KDA_WISDOM_PATH") == "none KDA_CACHE=off: KDA_WISDOM_PATH is not read\n");
}

// The bug: of a cache that cannot be made doctor gave the errno alone.
TEST_CASE("doctor names the remedy of a cache that cannot be made", "[tools]") {
  const test::Environment cache("KDA_CACHE_DIR", "/proc/nowhere/kda");
  CHECK_THAT(rows_of("cache"),
             test::contains("it cannot be made: ") && test::contains("set KDA_CACHE_DIR"));
}

TEST_CASE("doctor names variables that the library does not read", "[tools]") {
  const test::Scratch scratch;
  const test::Environment cache("KDA_CACHE_DIR", scratch / "c"), misspelt("KDA_CAHCE_DIR", "/tmp");
  CHECK_THAT(rows_of("environment"),
             test::contains("none KDA_CAHCE_DIR is set, which the library does not read\n"));
}

// The bug: a bundle or a cache of KDA_CACHE_PATH passed whatever was in it.
TEST_CASE("doctor reads what is in the places of KDA_CACHE_PATH", "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "c", file = scratch / "k.kdab";
  REQUIRE(test::kda_tune({"bundle", "create", file, "T=64 H=2 K=16 V=16", "--strategy", "recurrent",
                          "--arch", "sm_89", "--cache-dir", dir, "-q"})
              .code == 0);
  const test::Environment here("KDA_CACHE_DIR", scratch / "other"),
      path("KDA_CACHE_PATH", dir + ":" + file);
  CHECK(rows_of("KDA_CACHE_PATH") ==
        "ok " + dir + ": a cache of 1 entries\nok " + file + ": a bundle of 1 entries\n");
  for (const std::string& each : {cache::Layout(dir).entries().at(0), file}) {
    std::string text;
    REQUIRE(base::file::read(each, 1 << 24, text) == 0);
    text[text.size() - 100] = static_cast<char>(~text[text.size() - 100]);
    REQUIRE(base::file::publish(scratch.path(), each, text) == 0);
  }
  const std::string damaged = " of 1 entries, 1 of them damaged or unreadable\n";
  CHECK(rows_of("KDA_CACHE_PATH") ==
        "bad " + dir + ": a cache" + damaged + "bad " + file + ": a bundle" + damaged);
}

// The bug: doctor made the directory that it looked at, misspelt or not to be written.
TEST_CASE("doctor makes no directory", "[tools]") {
  const test::Scratch scratch;
  const test::Environment here("KDA_CACHE_DIR", scratch / "a/typo");
  for (const char* mode : {"rw", "ro"}) {
    const test::Environment cache("KDA_CACHE", mode);
    CHECK_THAT(rows_of("cache"), test::contains("ok " + scratch.path() + "/a/typo: 0 entries"));
    CHECK(std::filesystem::is_empty(scratch.path()));
  }
}
