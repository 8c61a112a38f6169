#include "bench/request.hpp"

#include <nlohmann/json.hpp>

#include "bench/variant.hpp"
#include "problem/problem.hpp"
#include "reference/cases.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/run_tool.hpp"

using namespace kda;
using Json = nlohmann::ordered_json;

namespace {

test::Ran kda_bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "kda-bench");
  return test::run_tool(&bench::main_of_bench, arguments);
}

}  // namespace

TEST_CASE("kda-bench --help shows the words, examples and exit codes", "[tools]") {
  const test::Ran ran = kda_bench({"--help"});
  CHECK(ran.code == 0);
  for (const char* part : {"kda-bench --suite prefill", "gate_regime=strong|weak|mixed",
                           "kda-bench \"T=8192 H=64 gate_regime=weak\"", "--time-budget",
                           "Exit codes", "lower_bound=-5"}) {
    CHECK_THAT(ran.out, test::contains(part));
  }
}

// The bugs: ten words of a problem, those of pools among them, were in no help text, and the others
// were named there and not explained.
TEST_CASE("kda-bench --help explains every word of a problem", "[tools]") {
  const test::Ran ran = kda_bench({"--help"});
  Problem setting;
  setting.initial_state = setting.final_state = true;
  CHECK_THAT(ran.out, test::contains(problem::explain_words(setting)));
  for (const char* part : {"  drafts=0  ", "  qk_normalized=0 ", "  ht=1  ", "  qkv=bf16  "}) {
    CHECK_THAT(ran.out, test::contains(part));
  }
}

TEST_CASE("kda-bench --list names every case", "[tools]") {
  const test::Ran ran = kda_bench({"--list"});
  CHECK(ran.code == 0);
  for (const reference::Case& row : reference::cases()) {
    CHECK_THAT(ran.out, test::contains(row.name));
  }
  const test::Ran json = kda_bench({"--list", "--json", "-"});
  CHECK(Json::parse(json.out).size() == reference::cases().size());
}

TEST_CASE("a wrong command line is exit code 2, with the known words", "[tools]") {
  const auto wrong = [](std::vector<std::string> arguments, const char* said) {
    const test::Ran ran = kda_bench(std::move(arguments));
    INFO(ran.err);
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains(said));
  };
  wrong({}, "--suite prefill");
  wrong({"h65"}, "gva16_64");
  wrong({"T=64 H=2 heads=2"}, "H is given twice");
  wrong({"T=64 H=2 colour=2"}, "gate_regime");
  wrong({"--suite", "training"}, "linear");
  wrong({"h64", "--gate-regime", "mild"}, "strong");
  wrong({"h64", "--repeat", "3"}, "--repeat");
  wrong({"h64", "--beta", "1.5"}, "--beta: 1.5 is not a number from 0 to 1");
  wrong({"h64", "--beta", "nan"}, "--beta: nan is not a number from 0 to 1");  // once it was one
  // Once nothing was run, device or not.
  wrong({"h64", "--strategy", "nosuch"}, "--strategy nosuch: there are recurrent");
  wrong({"h64", "--tuning", "threads=10..1"}, "threads");
  wrong({"h64", "--cache-dir", ""}, "an empty name is no directory");
  wrong({"h64", "--json", "/nonexistent/rows.json"}, "/nonexistent/rows.json: No such file");
}

// The bug: a name that a script left empty was no file to write to, which nothing said, and the
// results were on stdout.
TEST_CASE("kda-bench refuses an empty file name before anything is run", "[tools]") {
  for (const char* option : {"--json", "--md", "--csv"}) {
    const test::Ran ran = kda_bench({"h64", option, ""});
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains(std::string(option) + ": an empty name is no file"));
  }
}

TEST_CASE("an option takes one value, so that a case may follow it", "[tools]") {
  // Both once swallowed the case's name.
  CHECK_THAT(kda_bench({"--strategy", "chunk", "h65"}).err, test::contains("\"h65\""));
  CHECK_THAT(kda_bench({"--tuning", "chunk=32", "h65"}).err, test::contains("\"h65\""));
}

TEST_CASE("strategies and tunings combine, lists expanded", "[tools]") {
  const auto wanted = bench::wanted_variants({"chunk", "recurrent"}, {"threads=64,128"});
  REQUIRE(wanted.size() == 4);
  CHECK(wanted[1].strategy == "chunk");
  CHECK(wanted[1].tuning == "threads=128");
  CHECK(wanted[2].strategy == "recurrent");
  REQUIRE(bench::wanted_variants({}, {}).size() == 1);
  CHECK(bench::wanted_variants({}, {})[0].strategy.empty());
}

// The bug: two documents were one on stdout, or one was lost in the other's file, with exit code 0.
TEST_CASE("each result has a place of its own", "[tools]") {
  const test::Scratch scratch;
  const std::string file = scratch / "rows";
  for (const auto& [one, other] : {std::pair<std::string, std::string>{"-", "-"},
                                   {"-", "/dev/stdout"},
                                   {file, file},
                                   {file, scratch / "./rows"}}) {
    const test::Ran ran = kda_bench({"--list", "--json", one, "--csv", other});
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    CHECK_THAT(ran.err, test::contains("each wants a place of its own"));
  }
  const test::Ran ran = kda_bench({"--list", "--json", "/dev/stdout"});
  CHECK(ran.code == 0);
  CHECK(Json::parse(ran.out).size() == reference::cases().size());
}
