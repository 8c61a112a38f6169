// The results checked in under tools/results say where they come from, and README what they say.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

TEST_CASE("what README says of prefill is what its results say", "[tools]") {
  std::ifstream results(KDA_SOURCE_DIR "/tools/results/h200/prefill.json");
  const Json rows = Json::parse(results);
  std::ifstream file(KDA_SOURCE_DIR "/README.md");
  std::string readme(std::istreambuf_iterator<char>(file), {});
  std::replace(readme.begin(), readme.end(), '\n', ' ');

  const auto row = [&](const char* problem, const char* regime) -> const Json& {
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const Json& each) {
      return each["problem"] == problem && each["regime"] == regime;
    });
    REQUIRE(found != rows.end());
    return *found;
  };
  const auto us = [&](const char* problem, const char* regime) {
    return test::number(row(problem, regime)["gpu_us"]["median"]);
  };
  const auto over = [&](const char* problem, const char* regime) {
    return test::number(row(problem, regime)["fla_over_ours"]);
  };
  const auto says = [&](const std::string& words) {
    INFO(words);
    CHECK(readme.find(words) != std::string::npos);
  };
  for (const auto& [words, problem] : {std::pair{"T=8192 H=96", "h96"},
                                       {"T=8192 H=64", "h64"},
                                       {"T=8192 H=16", "h16"},
                                       {"T=1024 H=4", "h4_t1024"},
                                       {"32 sequences of 64 tokens H=16", "h16_32x64"}}) {
    says(fmt::format("| {} | {:.0f} | {:.1f} |", words, us(problem, "strong"),
                     over(problem, "strong")));
  }
  says(fmt::format("| {:.0f}, {:.0f} | {:.1f}, {:.1f} |", us("h32", "strong"), us("h32", "weak"),
                   over("h32", "strong"), over("h32", "weak")));
  for (const auto& [words, problem] : {std::pair{"eight heads of 65,536 tokens", "h8_t65536"},
                                       {"four of 131,072", "h4_t131072"},
                                       {"32 of 131,072", "h32_t131072"}}) {
    says(fmt::format("{} {:.0f}, {:.0f} and {:.0f}", words, us(problem, "strong"),
                     us(problem, "weak"), us(problem, "mixed")));
  }
  double least = INFINITY;
  double logs = 0;
  int count = 0;
  for (const Json& each : rows) {
    if (each["fla_over_ours"].is_null()) continue;
    const double times = test::number(each["fla_over_ours"]);
    least = std::min(least, times);
    logs += std::log(times);
    ++count;
  }
  REQUIRE(count > 0);
  says(fmt::format("{:.1f} times ours at the least, {:.1f} in the geometric mean", least,
                   std::exp(logs / count)));
}
