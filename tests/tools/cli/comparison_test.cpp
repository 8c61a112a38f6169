#include "cli/comparison.hpp"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "support/catch.hpp"
#include "support/scratch.hpp"

using namespace kda;
using cli::Json;
using cli::Verdict;

namespace {

measure::Summary timed(double median, double iqr) { return {10, median, iqr, median - iqr}; }

Json row(const char* problem, double median, double iqr = 0.1) {
  return {{"problem", problem},
          {"regime", "strong"},
          {"gpu_us", {{"n", 10}, {"median", median}, {"iqr", iqr}, {"min", median}}},
          {"strategy", "chunk"}};
}

std::string verdict_of(const Json& rows, const std::string& problem) {
  for (const Json& each : rows) {
    if (each["problem"] == problem) return each["verdict"].get<std::string>();
  }
  return "";
}

}  // namespace

TEST_CASE("two times are the same, apart, or not to be told", "[tools]") {
  CHECK(cli::judge(timed(100, 0.5), timed(100.5, 0.5), 0.01).verdict == Verdict::same);
  CHECK(cli::judge(timed(100, 0.5), timed(90, 0.5), 0.01).verdict == Verdict::fast);
  CHECK(cli::judge(timed(100, 0.5), timed(104, 0.5), 0.01).verdict == Verdict::slow);
  // The noise of both is more than what they differ by, or than what "the same" could mean.
  CHECK(cli::judge(timed(100, 5), timed(104, 5), 0.01).verdict == Verdict::ambg);
  CHECK(cli::judge(timed(100, 20), timed(100, 20), 0.01).verdict == Verdict::ambg);
  CHECK(cli::judge(timed(100, 0.5), timed(104, 0.5), 0.05).verdict == Verdict::same);
}

TEST_CASE("rows meet by their problem; what has no partner or no time is said", "[tools]") {
  Json broken = row("c", 1);
  broken.erase("gpu_us");
  broken["status"] = "wrong: o";
  const Json first = {row("a", 100), row("b", 100), row("c", 50), row("d", 10)};
  const Json second = {row("b", 80), row("a", 100.2), broken, row("e", 5)};
  const Json result = cli::compare(first, second, 0.01);
  const Json& rows = result["compared"];
  CHECK(verdict_of(rows, "a") == "SAME");
  CHECK(verdict_of(rows, "b") == "FAST");
  CHECK(verdict_of(rows, "c") == "BROKE");
  CHECK(verdict_of(rows, "d") == "GONE");
  CHECK(verdict_of(rows, "e") == "NEW");
  CHECK(result["summary"][0]["rows"] == 5);
  CHECK(result["summary"][0]["broke"] == 1);
  CHECK_FALSE(result["summary"][0].contains("slow"));
  CHECK(result["summary"][0]["second_over_first"].get<double>() ==
        test::Approx(std::sqrt(0.8 * 1.002)));
}

// The bug: a row of kda-tune tune that failed has no status, and was dropped: a problem that it
// could serve no longer was GONE, which --fail-on broke passes.
TEST_CASE("a problem that failed in the later run is broken", "[tools]") {
  const test::Scratch scratch;
  const auto results = [&](const Json& rows) {
    std::ofstream(scratch / "r.json") << Json{{"tuned", rows}}.dump();
    const auto read = cli::read_results(scratch / "r.json");
    REQUIRE(read);
    return *read;
  };
  const Json took = {{"problem", "a"}, {"time_us", {{"median", 100.0}}}, {"strategy", "chunk"}};
  const Json failed = {{"problem", "a"}, {"failed", "no candidate could be measured"}};
  const Json before = results(Json::array({took})), after = results(Json::array({failed}));
  const Json row = cli::compare(before, after, 0.01)["compared"][0];
  CHECK(row["verdict"] == "BROKE");
  CHECK(row["note"] == "no candidate could be measured");
  CHECK(cli::compare(after, before, 0.01)["compared"][0]["verdict"] == "MENDED");
}

// The bug: of a file with two devices' results the first rows met the other file's one device,
// whichever that was.
TEST_CASE("what several devices took is not compared across them", "[tools]") {
  const auto on = [](const char* device, double median) {
    Json each = row("a", median);
    each["device"] = device;
    return each;
  };
  const Json both = {on("H100", 200), on("H200", 100)};
  const Json rows = cli::compare(both, Json::array({on("H200", 100)}), 0.01)["compared"];
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["verdict"] == "GONE");
  CHECK(rows[1]["verdict"] == "SAME");
  // One against another is what is asked for.
  CHECK(cli::compare(Json::array({on("H100", 200)}), Json::array({on("H200", 100)}),
                     0.01)["compared"][0]["verdict"] == "FAST");
}

// Else a change of the files' order would be faster or slower.
TEST_CASE("rows meet by all that was asked, not by the problem alone", "[tools]") {
  for (const auto& [field, one, other] :
       {std::tuple<const char*, Json, Json>{"lengths", {1, 7}, {4, 4}},
        {"regime", "strong", "weak"},
        {"wanted_strategy", "chunk", "fused"},
        {"wanted_tuning", "threads=64", "threads=32"},
        {"cu_seqlens", {0, 1, 8}, {0, 4, 8}},
        {"words", "T=8 H=1", "T=8 H=2"}}) {
    INFO(field);
    Json a = row("a", 100), b = row("a", 50);
    a[field] = one;
    b[field] = other;
    const Json rows = cli::compare({a, b}, {b, a}, 0.01)["compared"];
    REQUIRE(rows.size() == 2);
    for (const Json& each : rows) CHECK(each["verdict"] == "SAME");
  }
}

// The bug: a time that is no number ended compare with the exit code of a regression.
TEST_CASE("a time that is no number is none", "[tools]") {
  Json text = row("a", 1);
  text["gpu_us"]["median"] = "fast";
  Json null = row("b", 100);
  null["gpu_us"]["iqr"] = nullptr;
  const Json rows = cli::compare({text, null}, {row("a", 1), row("b", 100)}, 0.01)["compared"];
  CHECK(verdict_of(rows, "a") == "MENDED");
  CHECK(verdict_of(rows, "b") == "SAME");
}

TEST_CASE("results are read from an array, a document and lines", "[tools]") {
  const test::Scratch scratch;
  const auto file = [&](const char* name, const std::string& text) {
    std::ofstream(scratch / name) << text;
    return scratch / name;
  };
  const Json rows = {row("a", 1), row("b", 2)};
  CHECK(cli::read_results(file("array.json", rows.dump()))->size() == 2);
  CHECK(cli::read_results(file("document.json", Json{{"tuned", rows}}.dump()))->size() == 2);
  CHECK(cli::read_results(file("lines.jsonl", rows[0].dump() + "\n" + rows[1].dump() + "\n"))
            ->size() == 2);
  CHECK_FALSE(cli::read_results(file("none.json", "[1, 2]")));
  CHECK_FALSE(cli::read_results(scratch / "missing.json"));
}
