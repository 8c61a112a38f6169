// The results checked in under tools/results say where they come from.
#include <filesystem>
#include <fstream>

#include "support/catch.hpp"
#include "tools/json.hpp"

using kda::test::Json;
namespace test = kda::test;
namespace fs = std::filesystem;

namespace {

void check_commit(const std::string& commit) {
  CHECK(commit != "unknown");
  CHECK(commit.find("-dirty") == std::string::npos);
}

// What tools/peers/compare.sh wrote: one head for all rows.
void check_comparison(const Json& document) {
  for (const char* key : {"machine", "date", "version", "commit", "command", "truth", "missing"}) {
    INFO(key);
    REQUIRE(document.contains(key));
  }
  check_commit(document["commit"]);
  REQUIRE_FALSE(document["rows"].empty());
  for (const Json& row : document["rows"]) {
    const Json& ours = row["contenders"]["ours"];
    if (ours.contains("us")) CHECK(test::number(ours["o_rel_l2"]) < 0.05);
  }
}

// What kda-tune tune wrote: a record a row, or why there is none.
void check_tuned(const Json& rows) {
  CHECK_FALSE(rows.empty());
  for (const Json& row : rows) {
    INFO(row.dump());
    if (row.contains("failed")) continue;
    for (const char* key : {"problem", "words", "device", "nvrtc", "driver", "library", "date",
                            "strategy", "tuning", "decision"}) {
      INFO(key);
      REQUIRE(row.contains(key));
      CHECK(test::text(row[key]) != "");
    }
    const std::string library = row["library"];
    check_commit(library.substr(library.find(' ') + 1));
    CHECK(test::number(row["time_us"]["median"]) > 0);
    CHECK(test::number(row["measured"]) >= 1);
  }
}

}  // namespace

TEST_CASE("every row of checked-in results names its device, versions, commit and command",
          "[tools]") {
  for (const auto& entry : fs::recursive_directory_iterator(KDA_SOURCE_DIR "/tools/results")) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path().string());
    std::ifstream file(entry.path());
    const Json rows = Json::parse(file);
    if (rows.is_object() && rows.contains("tuned")) {
      check_tuned(rows["tuned"]);
      continue;
    }
    if (rows.is_object()) {
      check_comparison(rows);
      continue;
    }
    REQUIRE(rows.is_array());
    CHECK_FALSE(rows.empty());
    for (const Json& row : rows) {
      for (const char* key : {"problem", "regime", "status", "device", "driver", "nvrtc", "version",
                              "commit", "date", "command"}) {
        INFO(key);
        REQUIRE(row.contains(key));
        CHECK(test::text(row[key]) != "");
      }
      check_commit(row["commit"]);
      CHECK(test::text(row["command"]).starts_with("kda-bench "));
      // A time without a verdict would be a number that nobody checked.
      if (row.contains("gpu_us")) CHECK(test::number(row["heads_verified"]) >= 1);
    }
  }
}
