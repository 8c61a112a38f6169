// The results checked in under tools/results say where they come from, and README what they say
// (tools/summary.py --check holds summary.md to them).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

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
      CHECK((" " + test::text(row["command"])).find(" kda-bench ") != std::string::npos);
      // A time without a verdict would be a number that nobody checked.
      if (row.contains("gpu_us")) CHECK(test::number(row["heads_verified"]) >= 1);
    }
  }
}

TEST_CASE("README names every file of results with the commit that its rows have", "[tools]") {
  const fs::path results = KDA_SOURCE_DIR "/tools/results";
  std::ifstream file(results / "README.md");
  const std::string readme(std::istreambuf_iterator<char>(file), {});
  for (const std::string device : {"h200", "h100"}) {
    const size_t begin = readme.find("### " + device);
    REQUIRE(begin != std::string::npos);
    std::istringstream lines(readme.substr(begin, readme.find("\n#", begin + 1) - begin));
    std::string said;  // all that this device's table names
    for (std::string line; std::getline(lines, line);) {
      said += line;
      if (!line.starts_with("| `")) continue;
      std::string names = line.substr(2, line.find(" |", 2) - 2);
      const std::string commit = line.substr(names.size() + 5, 7);
      for (size_t at; (at = names.find('`')) != std::string::npos;) {
        const size_t end = names.find('`', at + 1);
        const std::string name = names.substr(at + 1, end - at - 1);
        names.erase(0, end + 1);
        INFO(device + "/" + name);
        std::ifstream rows_file(results / device / (name + ".json"));
        if (!rows_file) {  // has no commit of its own
          const bool is_text =
              fs::exists(results / device / name) || fs::exists(results / device / (name + ".md"));
          CHECK(is_text);
          continue;
        }
        const Json rows = Json::parse(rows_file);
        if (rows.is_array()) {
          for (const Json& row : rows) CHECK(row["commit"] == commit);
        } else if (rows.contains("commit")) {
          CHECK(rows["commit"] == commit);
        } else {
          for (const Json& row : rows["tuned"]) {
            if (row.contains("library")) CHECK(test::text(row["library"]).ends_with(commit));
          }
        }
      }
    }
    for (const auto& entry : fs::directory_iterator(results / device)) {
      const std::string name = entry.path().filename().string();
      INFO(device + "/" + name);
      const bool is_named =
          said.find("`" + name + "`") != std::string::npos ||
          said.find("`" + entry.path().stem().string() + "`") != std::string::npos;
      CHECK(is_named);
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

TEST_CASE("what README says of peers is what their race says", "[tools]") {
  std::ifstream results(KDA_SOURCE_DIR "/tools/results/h200/peers.json");
  const Json rows = Json::parse(results)["rows"];
  std::ifstream file(KDA_SOURCE_DIR "/README.md");
  std::string readme(std::istreambuf_iterator<char>(file), {});
  std::replace(readme.begin(), readme.end(), '\n', ' ');
  const auto says = [&](const std::string& words) {
    INFO(words);
    CHECK(readme.find(words) != std::string::npos);
  };

  for (const auto& [peer, words] :
       {std::pair{"fla", "FLA"},
        {"cudnn_cuda", "cuDNN Frontend's fused engine"},
        {"cudnn_cuda_f32", "the same, given g and beta in f32, made beforehand"}}) {
    double all = 0, strong = 0, other = 0, least = INFINITY;
    for (const Json& row : rows) {
      const Json& runs = row["contenders"];
      const double times = test::number(runs[peer]["us"]) / test::number(runs["ours"]["us"]);
      all += std::log(times);
      (row["regime"] == "strong" ? strong : other) += std::log(times);
      least = std::min(least, times);
    }
    const double cases = static_cast<double>(rows.size()) / 3;
    const std::string row =
        fmt::format("| {} | {:.1f} | {:.1f} | {:.1f} | ", words, std::exp(all / cases / 3),
                    std::exp(strong / cases), std::exp(other / cases / 2));
    says(row + fmt::format("{:.{}f},", least, least < 1 ? 2 : 1));
  }
  const auto reached = std::count_if(rows.begin(), rows.end(), [](const Json& row) {
    return test::number(row["contenders"]["ours"]["us"]) <= test::number(row["bar_us"]);
  });
  says(fmt::format("{} of the {} rows are at or under", reached, rows.size()));
}
