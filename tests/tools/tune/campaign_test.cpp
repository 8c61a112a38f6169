// kda-tune tune whole, in processes of its own, on devices that are not there: fake/kda_tune.cpp.
#include "tune/campaign.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "cli/failure.hpp"
#include "device/device.hpp"
#include "support/catch.hpp"
#include "support/fake_driver.hpp"
#include "support/scratch.hpp"
#include "tools/json.hpp"
#include "tune/journal.hpp"

using namespace kda;
using kda::test::Json;

namespace {

const char* const kWords = "H=1 K=16 V=16 qkv=f32 g=f32 beta=f32 layout=key_first h0=1 ht=1";

struct Tool {
  test::Scratch scratch;
  std::string said, complaints;

  // The exit code.  `before` is a command to run it by, `end` what the problem stands behind.
  int tune(const std::string& words, const std::string& options, int devices,
           const std::string& before = "", const std::string& end = "") {
    std::string problems;
    for (int tokens = 40; tokens <= 72; tokens += 8) {
      problems += (problems.empty() ? "" : ";") + ("T=" + std::to_string(tokens) + " " + kWords);
    }
    const std::string command =
        "KDA_FAKE_DEVICES=" + std::to_string(devices) + " KDA_FAKE_PROBLEMS='" + problems + "' " +
        before + " " KDA_BINARY_DIR "/tests/kda-tune-on-fake-gpu tune --strategy recurrent" +
        " --cache-dir " + (scratch / "cache") + " -o json " + options + end + " \"" + words + " " +
        kWords + "\" > " + (scratch / "out") + " 2> " + (scratch / "err");
    const int status = std::system(command.c_str());
    said = text_of("out");
    complaints = text_of("err");
    return WEXITSTATUS(status);
  }

  std::string text_of(const char* name) const {
    std::ifstream in(scratch / name);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
};

std::set<int> devices_in(const Json& rows) {
  std::set<int> devices;
  for (const Json& row : rows) {
    const auto journal = tune::read_journal(test::text(row["journal"]));
    REQUIRE(journal);
    for (const tune::Measurement& each : journal->measurements) devices.insert(each.device);
  }
  return devices;
}

}  // namespace

TEST_CASE("several problems are shared among the devices, and all are recorded",
          "[tools][compile]") {
  Tool tool;
  const int code = tool.tune("T=40..64:8", "--tuning 'threads=64 stages=2' --time 60", 3);
  INFO(tool.complaints);
  REQUIRE(code == 0);
  const Json rows = Json::parse(tool.said)["tuned"];
  REQUIRE(rows.size() == 4);
  CHECK(test::text(rows[0]["problem"]).starts_with("T=40"));  // as asked, not as run
  for (const Json& row : rows) {
    CHECK(row["time_us"]["median"].get<double>() > 0);
    CHECK(test::text(row["ended_by"]).empty());
  }
  CHECK(devices_in(rows) == std::set<int>{0, 1, 2});
  int records = 0;
  for (const auto& each :
       std::filesystem::recursive_directory_iterator(tool.scratch / "cache/wisdom/v1")) {
    const std::string path = each.path();
    if (path.ends_with(".json") && !path.ends_with("manifest.json")) ++records;
  }
  CHECK(records == 4);
}

TEST_CASE("one problem's candidates are shared; kernels come from processes of their own",
          "[tools][compile]") {
  Tool tool;
  const int code = tool.tune("T=40", "--tuning 'threads=256 stages=2' --processes 2", 3);
  INFO(tool.complaints);
  REQUIRE(code == 0);
  CHECK_THAT(tool.complaints, test::contains("8 kernels of 8 compiled"));
  CHECK_THAT(tool.complaints, test::contains("by 2 processes"));
  CHECK(devices_in(Json::parse(tool.said)["tuned"]).size() == 3);
}

// The bug: a search told to look at one strategy or tuning alone took the place of a faster winner.
TEST_CASE("a search that leaves something out replaces no faster winner", "[tools][compile]") {
  Tool tool;
  const auto row = [&] {
    REQUIRE(tool.tune("T=40", "--tuning 'threads=64 stages=2'", 1) == 0);
    return Json::parse(tool.said)["tuned"][0];
  };
  CHECK_FALSE(row().contains("not_recorded"));
  std::string record;
  for (const auto& each :
       std::filesystem::recursive_directory_iterator(tool.scratch / "cache/wisdom/v1")) {
    const std::string path = each.path();
    if (path.ends_with(".json") && !path.ends_with("manifest.json")) record = path;
  }
  REQUIRE_FALSE(record.empty());
  const auto make_it_take = [&](double microseconds) {
    std::ifstream in(record);
    Json kept = Json::parse(in);
    kept["time_us"]["median"] = microseconds;
    std::ofstream(record) << kept.dump() << "\n";
  };
  make_it_take(1e-3);
  CHECK_THAT(test::text(row()["not_recorded"]), test::contains("stands"));
  make_it_take(1e9);
  CHECK_FALSE(row().contains("not_recorded"));
}

// The bug: where KDA_CACHE forbids it a search's winner was recorded nowhere, without a word.
TEST_CASE("a search says that nothing will be recorded", "[tools][compile]") {
  Tool tool;
  REQUIRE(tool.tune("T=40", "--tuning 'threads=64 stages=2'", 1, "KDA_CACHE=off") == 0);
  CHECK_THAT(tool.complaints, test::contains("nothing will be recorded: KDA_CACHE is off"));
  // The bug: the search wrote its journal all the same.
  CHECK_FALSE(Json::parse(tool.said)["tuned"][0].contains("journal"));
  CHECK_FALSE(std::filesystem::exists(tool.scratch / "cache/wisdom"));
}

// The bug: a journal that could not be written was passed over without a word, one that could not
// be resumed was truncated, and a seed that no journal holds truncated it before it was refused.
TEST_CASE("what becomes of a journal is said", "[tools][compile]") {
  Tool tool;
  const char* const options = "--tuning 'threads=64 stages=2'";
  REQUIRE(tool.tune("T=40", options, 1) == 0);
  const std::string journal = test::text(Json::parse(tool.said)["tuned"][0]["journal"]);
  const auto bytes = std::filesystem::file_size(journal);
  CHECK(tool.tune("T=40", "--seed -1", 1) == 2);
  CHECK(std::filesystem::file_size(journal) == bytes);

  std::ofstream(journal) << "damaged\n";
  REQUIRE(tool.tune("T=40", std::string(options) + " --resume", 1) == 0);
  CHECK_THAT(tool.complaints, test::contains("kept as " + journal + ".damaged"));
  CHECK(std::filesystem::file_size(journal + ".damaged") == 8);

  std::filesystem::remove(journal);
  std::filesystem::create_directory(journal);
  REQUIRE(tool.tune("T=40", options, 1) == 0);
  CHECK_THAT(tool.complaints, test::contains("without a journal"));
  CHECK_THAT(tool.complaints, test::contains("journal " + journal + ": Is a directory"));
  CHECK(Json::parse(tool.said)["tuned"][0].contains("no_journal"));
  // Ctrl-C once it measures.
  const std::string interrupt =
      "bash -c '\"$@\" & for i in {1..600}; do sleep 0.1; grep -q \"without a\" " +
      (tool.scratch / "err") + " && break; done; kill -INT $!; wait $!' bash";
  CHECK(tool.tune("T=40", "--method exhaustive", 1, interrupt) == 130);
  CHECK_THAT(tool.complaints, test::contains("begins anew"));
  CHECK_THAT(tool.complaints, !test::contains("--resume goes on"));
}

// The bug: times of another device, or of one that two workers shared, were the first one's.
TEST_CASE("devices are named once each", "[tools][compile]") {
  Tool tool;
  CHECK(tool.tune("T=40", "--devices 0,0", 2) == 2);
  CHECK_THAT(tool.complaints, test::contains("0 is named twice"));
}

// What is timed on a slice, or on another kind, would be recorded as the first device's.
TEST_CASE("a search takes devices of one kind alone", "[tools]") {
  const test::FakeDriver two;
  device::Device first = *device::query(1);
  first.ordinal = 0;  // of the kind of the other, which has a name of its own
  tune_tool::Request request;
  CHECK(tune_tool::devices_of(request, first) == std::vector<int>{0, 1});
  first.multiprocessors /= 2;  // the other is whole
  CHECK(tune_tool::devices_of(request, first) == std::vector<int>{0});
  request.devices = {1};
  CHECK_THROWS_AS(tune_tool::devices_of(request, first), cli::Failure);
  first.multiprocessors *= 2;
  CHECK(tune_tool::devices_of(request, first) == std::vector<int>{1});
  first.name = "another";
  CHECK_THROWS_AS(tune_tool::devices_of(request, first), cli::Failure);
}

TEST_CASE("a limit of time holds, and what no time was left for says so", "[tools][compile]") {
  Tool tool;
  const auto start = std::chrono::steady_clock::now();
  const int code = tool.tune("T=40..72:8", "--time 4", 1);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  INFO(tool.complaints);
  CHECK(code == 1);
  CHECK(passed.count() < 25);  // 4 s, grace, and a machine that others use
  CHECK_THAT(tool.said, test::contains("not begun: the time was up"));
}

TEST_CASE("Ctrl-C prints what was found, and --resume goes on", "[tools][compile]") {
  Tool tool;
  // Five searches of a whole space: no machine is through with them that soon.
  const int code = tool.tune("T=40..72:8", "--method exhaustive", 1,
                             "timeout --preserve-status --foreground -s INT 2");
  INFO(tool.complaints);
  REQUIRE(code == 130);
  CHECK_THAT(tool.complaints, test::contains("--resume goes on"));
  REQUIRE(tool.tune("T=40", "--tuning 'threads=64 stages=2' --resume", 1) == 0);
}

// The bug: behind a -- what the processes that compile are told was a problem to them, and nothing
// was compiled ahead, without a word.
TEST_CASE("problems may stand behind a --", "[tools][compile]") {
  Tool tool;
  const int code = tool.tune("T=40", "--tuning 'threads=256 stages=2' --processes 2", 1, "", " --");
  INFO(tool.complaints);
  REQUIRE(code == 0);
  CHECK_THAT(tool.complaints, test::contains("8 kernels of 8 compiled"));
  CHECK_THAT(tool.complaints, !test::contains("a process that compiles: "));
}
