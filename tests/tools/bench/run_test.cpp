// kda-bench from its command line to its rows, on a driver that computes on the host.
#include "bench/run.hpp"

#include <fstream>

#include "cli/subject.hpp"
#include "reference/inputs.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/fake_gpu.hpp"
#include "tools/json.hpp"
#include "tools/run_tool.hpp"

using namespace kda;
using kda::test::Json;

namespace {

const std::string words = "T=24 H=1 HV=2 K=16 V=16 layout=key_first";

test::Ran bench_with(const test::Scratch& scratch, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"kda-bench", "--cache-dir", scratch / "cache", "--repeats",
                                       "3", "--json", "-", "--strategy", "recurrent"});
  return test::run_tool(&bench::main_of_bench, arguments);
}

// The fake device computes this problem.
void serve(test::FakeGpu& gpu, const std::string& text) {
  const cli::Subject subject = cli::subjects_of(text, {})->front();
  gpu.shape =
      reference::make_tensors(subject.problem, subject.problem.max_tokens, subject.cu_seqlens);
}

}  // namespace

TEST_CASE("a right kernel is verified, timed and reported with its circumstances", "[tools]") {
  test::FakeGpu gpu;
  serve(gpu, words);
  const test::Scratch scratch;
  const test::Ran ran = bench_with(scratch, {words, "--gate-regime", "strong,weak,mixed"});
  INFO(ran.err);
  CHECK(ran.code == 0);
  const Json rows = Json::parse(ran.out);
  REQUIRE(rows.size() == 3);
  for (const Json& row : rows) {
    CHECK(test::text(row["status"]) == "ok");
    CHECK(test::text(row["strategy"]) == "recurrent");
    CHECK(test::number(row["gpu_us"]["median"]) > 0);
    CHECK(test::number(row["gpu_us"]["n"]) == 3);
    CHECK(test::number(row["calls_a_graph"]) >= 5);
    CHECK(test::number(row["call_us"]["median"]) > 0);
    CHECK(test::number(row["run_ns"]["n"]) >= 16);
    CHECK(test::number(row["gb_per_s"]) > 0);
    CHECK(test::number(row["o_rel_l2"]) < 5e-3);
    CHECK(test::number(row["heads_verified"]) == 2);
    CHECK(test::number(row["kernels"]["step"]["registers"]) > 0);
    CHECK(test::number(row["make"]["cold_ms"]) > test::number(row["make"]["disk_ms"]));
    CHECK(test::text(row["device"]) == "Fake GPU");
    CHECK(test::text(row["driver"]).find("CUDA 13.0") != std::string::npos);
    for (const char* key : {"nvrtc", "version", "commit", "command", "date", "tuning"}) {
      CHECK(test::text(row[key]) != "");
    }
  }
  CHECK(test::text(rows[1]["regime"]) == "weak");
}

TEST_CASE("variants of one run are compared side by side", "[tools]") {
  test::FakeGpu gpu;
  serve(gpu, words);
  const test::Scratch scratch;
  const test::Ran ran =
      bench_with(scratch, {words, "--quick", "--tuning", "threads=64,128 columns=4"});
  INFO(ran.err);
  CHECK(ran.code == 0);
  const Json rows = Json::parse(ran.out);
  REQUIRE(rows.size() == 2);
  CHECK(test::text(rows[0]["wanted_tuning"]) == "threads=64 columns=4");
  CHECK(test::text(rows[1]["wanted_tuning"]) == "threads=128 columns=4");
  CHECK_FALSE(rows[0].contains("make"));
}

// The bug: --quick cut --repeats to five without a word, so that results said to be of 60 replays
// were of five.
TEST_CASE("quick is five replays and one head, but what is named stays", "[tools]") {
  test::FakeGpu gpu;
  serve(gpu, words);
  const test::Scratch scratch;
  const auto row_of = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"kda-bench", "--cache-dir", scratch / "cache", "--json",
                                         "-", "--strategy", "recurrent", words, "--quick"});
    const test::Ran ran = test::run_tool(&bench::main_of_bench, arguments);
    INFO(ran.err);
    REQUIRE(ran.code == 0);
    return Json::parse(ran.out)[0];
  };
  const Json quick = row_of({});
  CHECK(test::number(quick["gpu_us"]["n"]) == 5);
  CHECK(test::number(quick["heads_verified"]) == 1);
  CHECK_FALSE(quick.contains("make"));
  const Json named = row_of({"--repeats", "7", "--heads", "2", "--compile"});
  CHECK(test::number(named["gpu_us"]["n"]) == 7);
  CHECK(test::number(named["heads_verified"]) == 2);
  CHECK(named.contains("make"));
}

TEST_CASE("--beta is what every token is written by, and rows say so", "[tools]") {
  test::FakeGpu gpu;
  serve(gpu, words);
  const test::Scratch scratch;
  const Json drawn = Json::parse(bench_with(scratch, {words, "--quick"}).out)[0];
  const Json row = Json::parse(bench_with(scratch, {words, "--quick", "--beta", "0.25"}).out)[0];
  CHECK(test::text(row["status"]) == "ok");
  CHECK(test::number(row["beta"]) == 0.25);
  CHECK_FALSE(drawn.contains("beta"));
  // Other inputs, other rounding.
  CHECK(test::number(row["o_rel_l2"]) != test::number(drawn["o_rel_l2"]));
}

TEST_CASE("a kernel that writes nothing is wrong and not timed", "[tools]") {
  test::FakeGpu gpu;
  serve(gpu, words);
  gpu.writes = false;
  const test::Scratch scratch;
  const test::Ran ran = bench_with(scratch, {words, "--quick"});
  CHECK(ran.code == 1);
  const Json row = Json::parse(ran.out)[0];
  CHECK_THAT(test::text(row["status"]), test::contains("WRONG: o: element 0"));
  CHECK_FALSE(row.contains("gpu_us"));
  CHECK(gpu.launches == 1);
  CHECK_THAT(ran.err, test::contains("WRONG"));
}

TEST_CASE("a kernel off by one percent is wrong and not timed", "[tools]") {
  test::FakeGpu gpu;
  serve(gpu, words);
  gpu.o_factor = 1.01;
  const test::Scratch scratch;
  const test::Ran ran = bench_with(scratch, {words, "--quick"});
  CHECK(ran.code == 1);
  CHECK_THAT(Json::parse(ran.out)[0]["status"].get<std::string>(),
             test::contains("WRONG: o: rel-L2"));
}

TEST_CASE("a profile run launches once and verifies nothing", "[tools]") {
  test::FakeGpu gpu;
  serve(gpu, words);
  gpu.writes = false;
  const test::Scratch scratch;
  const test::Ran ran = bench_with(scratch, {words, "--profile"});
  CHECK(ran.code == 0);
  CHECK(gpu.launches == 1);
}

TEST_CASE("a spent time budget skips with a word", "[tools]") {
  test::FakeGpu gpu;
  serve(gpu, words);
  const test::Scratch scratch;
  const test::Ran ran = bench_with(
      scratch, {words, "--quick", "--gate-regime", "strong,weak", "--time-budget", "1e-9"});
  const Json rows = Json::parse(ran.out);
  REQUIRE(rows.size() == 2);
  CHECK_THAT(test::text(rows[1]["status"]), test::contains("time budget"));
  CHECK_THAT(ran.err, test::contains("time budget"));
}

TEST_CASE("a problem that does not fit is skipped and fails the run, the next one runs",
          "[tools]") {
  test::FakeGpu gpu;
  serve(gpu, words);
  const test::Scratch scratch;
  const test::Ran ran = bench_with(scratch, {"T=65536 H=8", words, "--quick"});
  CHECK(ran.code == 1);
  const Json rows = Json::parse(ran.out);
  REQUIRE(rows.size() == 2);
  CHECK_THAT(test::text(rows[0]["status"]), test::contains("GB are free"));
  CHECK(test::text(rows[1]["status"]) == "ok");
}

TEST_CASE("an unknown tunable makes no measurement and exit code 2", "[tools]") {
  test::FakeGpu gpu;
  serve(gpu, words);
  const test::Scratch scratch;
  const test::Ran ran = bench_with(scratch, {words, "--quick", "--tuning", "warps=4"});
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, test::contains("columns"));
}

// The bug: beside a strategy or a tuning that there is one that there is not was passed over, with
// exit code 0.
TEST_CASE("each strategy and tuning that is named is one", "[tools]") {
  test::FakeGpu gpu;
  serve(gpu, words);
  const test::Scratch scratch;
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--strategy", "nosuch"}, {"--tuning", "threads=64,999"}}) {
    std::vector<std::string> all = {words, "--quick"};
    all.insert(all.end(), more.begin(), more.end());
    const test::Ran ran = bench_with(scratch, all);
    INFO(ran.err);
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
  }
  // Of several strategies a tuning may be of some alone.
  const test::Ran ran = bench_with(
      scratch, {words, "--quick", "--strategy", "chunk", "--tuning", "threads=64 columns=4"});
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(Json::parse(ran.out).size() == 2);
}

// The bug: where the first of its files could not be written the others, and the table, were not.
TEST_CASE("a file that cannot be written costs no other result", "[tools]") {
  test::FakeGpu gpu;
  serve(gpu, words);
  const test::Scratch scratch;
  const std::string table = scratch / "rows.md";
  const test::Ran ran =
      test::run_tool(&bench::main_of_bench,
                     {"kda-bench", words, "--strategy", "recurrent", "--quick", "--quiet",
                      "--cache-dir", scratch / "cache", "--json", "/dev/full", "--md", table});
  CHECK(ran.code == 1);
  CHECK_THAT(ran.err, test::contains("cannot write /dev/full"));
  CHECK_THAT(ran.out, test::contains("GPU us"));
  std::ifstream in(table);
  CHECK_THAT(std::string(std::istreambuf_iterator<char>(in), {}), test::contains("| recurrent"));
}
