#include "tune/commands.hpp"

#include <filesystem>

#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/json.hpp"
#include "tools/tune/kda_tune.hpp"
#include "tune/environment.hpp"

using namespace kda;
using kda::test::Json;

namespace {

const std::string small = "T=256 H=2 K=64 V=64";

Json json_of(const test::Ran& ran) {
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  return Json::parse(ran.out);
}

}  // namespace

TEST_CASE("every subcommand of kda-tune helps with examples", "[tools]") {
  const test::Ran all = test::kda_tune({"--help"});
  CHECK(all.code == 0);
  CHECK_THAT(all.out, test::contains("Exit codes"));
  for (const std::string name : {"doctor", "list", "build", "explain", "dump"}) {
    CHECK_THAT(all.out, test::contains("kda-tune " + name));
    const test::Ran ran = test::kda_tune({name, "--help"});
    CHECK(ran.code == 0);
    CHECK_THAT(ran.out, test::contains("Examples:\n  kda-tune " + name));
  }
}

TEST_CASE("doctor reports as JSON what it checked", "[tools]") {
  const test::Scratch scratch;
  const test::Environment cache("KDA_CACHE_DIR", scratch / "cache");
  const test::Ran ran = test::kda_tune({"doctor", "--json"});
  const Json document = Json::parse(ran.out);
  bool broken = false;
  for (const Json& check : document["checks"]) broken = broken || check["state"] == "bad";
  CHECK(ran.code == (broken ? 1 : 0));
  CHECK(test::text(document["checks"][0]["check"]) == "kda");
  // As tools/carry_records.py reads it.
  CHECK_THAT(test::text(document["checks"][0]["found"]),
             test::contains("templates " + tune::templates_digest()));
  CHECK(test::text(document["checks"][1]["check"]) == "NVRTC");
  bool named = false;
  for (const Json& row : document["environment"]) {
    named = named || (row["name"] == "KDA_CACHE_DIR" && row["value"] == scratch / "cache");
  }
  CHECK(named);
}

TEST_CASE("doctor without NVRTC (apart)", "[.]") {
  const test::Ran ran = test::kda_tune({"doctor"});
  CHECK(ran.code == 1);
  CHECK_THAT(ran.out, test::contains("NVRTC in full:\nno usable NVRTC; tried:") &&
                          test::contains("/nonexistent/libnvrtc.so"));
}

// The bug: the table said "tried: ..." and nothing said what.
TEST_CASE("doctor says in full what a table cuts off", "[tools]") {
  const test::Outcome outcome = test::run_case_apart(
      "doctor without NVRTC (apart)", {{"KDA_NVRTC_PATH", "/nonexistent/libnvrtc.so"}});
  INFO(outcome.output);
  CHECK(outcome.code == 0);
}

TEST_CASE("list shows strategies, tunables, devices and cases", "[tools]") {
  const Json document = json_of(test::kda_tune({"list", "-o", "json"}));
  CHECK(document["strategies"].size() >= 2);
  bool chunk = false;
  for (const Json& row : document["tunables"]) {
    CHECK_FALSE(row["values"].empty());
    CHECK_FALSE(test::text(row["meaning"]).empty());
    chunk = chunk || (row["strategy"] == "chunk" && row["name"] == "chunk");
  }
  CHECK(chunk);
  CHECK(document["devices"].size() > 5);
  CHECK(document["cases"].size() == 23);
  CHECK_THAT(test::kda_tune({"list"}).out, test::contains("token by token"));
}

TEST_CASE("build compiles for devices that are not there, and the cache keeps it", "[tools]") {
  const test::Scratch scratch;
  const std::vector<std::string> command = {
      "build", small,  "--strategy", "chunk", "--arch",      "sm_89,sm_90a",
      "-o",    "json", "--jobs",     "2",     "--cache-dir", scratch / "cache"};
  const Json first = json_of(test::kda_tune(command));
  REQUIRE(first["kernels"].size() == 4);  // two stages, two devices
  for (const Json& row : first["kernels"]) {
    CHECK(test::text(row["strategy"]) == "chunk");
    CHECK(test::number(row["registers"]) > 0);
    CHECK(test::number(row["spill_bytes"]) == 0);
    CHECK(test::number(row["cubin_bytes"]) > 1000);
    CHECK(test::number(row["compile_ms"]) > 1);
    CHECK(test::text(row["origin"]) == "built");
    CHECK(test::text(row["key"]).size() == 32);
  }
  CHECK(test::text(first["kernels"][0]["arch"]) == "sm_89");
  CHECK(test::text(first["kernels"][3]["arch"]) == "sm_90a");
  const Json second = json_of(test::kda_tune(command));
  for (const Json& row : second["kernels"]) CHECK(test::text(row["origin"]) == "memory");

  const Json explained =
      json_of(test::kda_tune({"explain", small, "--strategy", "chunk", "--arch", "sm_89", "-o",
                              "json", "--cache-dir", scratch / "cache"}));
  CHECK(test::text(explained["kernels"][0]["key"]) == test::text(first["kernels"][0]["key"]));
  CHECK(test::text(explained["kernels"][0]["origin"]) == "memory");
}

TEST_CASE("a list of tunings is a list of builds, and what cannot be served says why", "[tools]") {
  const test::Scratch scratch;
  const Json document = json_of(
      test::kda_tune({"build", small, "--strategy", "recurrent", "--tuning", "threads=64,128",
                      "--arch", "sm_90a", "-o", "json", "--cache-dir", scratch / "cache"}));
  CHECK(document["kernels"].size() == 2);
  const test::Ran bad =
      test::kda_tune({"build", small, "--strategy", "recurrent", "--tuning", "warps=3", "--arch",
                      "sm_90a", "--cache-dir", scratch / "cache"});
  CHECK(bad.code == 2);
  CHECK_THAT(bad.err, test::contains("columns"));
}

TEST_CASE("explain marks one strategy as chosen and compiles nothing", "[tools]") {
  const test::Scratch scratch;
  const Json document = json_of(test::kda_tune(
      {"explain", "h64", "--arch", "h200", "-o", "json", "--cache-dir", scratch / "cache"}));
  int chosen = 0;
  for (const Json& row : document["candidates"]) {
    if (row["chosen"] == true) ++chosen;
    CHECK_FALSE(test::text(row["why"]).empty());
  }
  CHECK(chosen == 1);
  for (const Json& row : document["kernels"]) CHECK(test::text(row["origin"]) == "not compiled");
  bool compiler = false;
  for (const Json& row : document["key fields"]) compiler = compiler || row["field"] == "compiler";
  CHECK(compiler);
}

// The bug: of 32 heads it told of 236 us where it passed by the 209 that a record had of another.
TEST_CASE("explain expects least of what is chosen", "[tools]") {
  for (const char* problem : {"h32", "h64", "h8_t65536", "T=4096 H=2 h0=1 ht=1"}) {
    INFO(problem);
    const Json document =
        json_of(test::kda_tune({"explain", problem, "--arch", "h200", "-o", "json"}));
    double chosen = 0;
    for (const Json& row : document["candidates"]) {
      if (row["chosen"] == true) chosen = row["expected_us"];
    }
    CHECK(chosen > 0);
    for (const Json& row : document["candidates"]) {
      if (row.contains("expected_us")) CHECK(chosen <= row["expected_us"]);
    }
  }
}

TEST_CASE("dump shows the composed source and the templates it reaches", "[tools]") {
  const test::Ran ran = test::kda_tune(
      {"dump", small, "--strategy", "chunk", "--arch", "sm_90a", "--stage", "recurrence"});
  CHECK(ran.code == 0);
  CHECK_THAT(ran.out, test::contains("#define KDA_TUNING {"));
  CHECK_THAT(ran.out, test::contains("chunk/recurrence.cu\""));
  CHECK_THAT(ran.out, test::contains("//   abi/chunk.h"));
  CHECK(ran.out.find("prepare.cu") == std::string::npos);
}

TEST_CASE("dump shows PTX and resources", "[tools]") {
  const test::Scratch scratch;
  const test::Ran ptx =
      test::kda_tune({"dump", small, "--strategy", "recurrent", "--arch", "sm_89", "--ptx"});
  CHECK(ptx.code == 0);
  CHECK_THAT(ptx.out, test::contains(".target sm_89"));
  CHECK_THAT(ptx.out, test::contains("kda_recurrent_step"));
  const Json needs =
      json_of(test::kda_tune({"dump", small, "--strategy", "recurrent", "--arch", "sm_89",
                              "--resources", "-o", "json", "--cache-dir", scratch / "cache"}));
  CHECK(test::number(needs["kernels"][0]["registers"]) > 0);
}

TEST_CASE("dump --sass disassembles or says what is missing", "[tools]") {
  const test::Scratch scratch;
  const test::Ran ran = test::kda_tune({"dump", small, "--strategy", "recurrent", "--arch", "sm_89",
                                        "--sass", "--cache-dir", scratch / "cache"});
  if (ran.code == 0) {
    CHECK_THAT(ran.out, test::contains("EXIT"));
  } else {
    CHECK(ran.code == 1);
    CHECK_THAT(ran.err, test::contains("nvdisasm"));
  }
}

TEST_CASE("wrong words are exit code 2, with the known ones", "[tools]") {
  const auto wrong = [](std::vector<std::string> arguments, const char* said) {
    const test::Ran ran = test::kda_tune(std::move(arguments));
    INFO(ran.err);
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains(said));
  };
  wrong({}, "subcommand");
  wrong({"explain"}, "kda-tune list");
  wrong({"explain", "h64", "h32"}, "2 problems");
  wrong({"explain", "h65"}, "gva16_64");
  wrong({"explain", "h64", "--arch", "sm_70"}, "sm_90a");
  wrong({"explain", "h64", "--strategy", "flash"}, "recurrent");
  wrong({"dump", "h64", "--strategy", "chunk", "--arch", "sm_90a", "--stage", "fold"}, "prepare");
  wrong({"list", "-o", "xml"}, "jsonl");
  for (const char* option : {"--output", "--plot"}) {
    wrong({"tune", "h64", option, "/nonexistent/rows"}, "/nonexistent/rows: No such file");
  }
}

// The bug: of several devices explain showed the first, and no word of the others.
TEST_CASE("explain is of one device", "[tools]") {
  const test::Ran ran = test::kda_tune({"explain", small, "--arch", "sm_90a,l4"});
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, test::contains("--arch sm_90a,l4 names 2 devices; one is wanted"));
}

// The bug: tune took --arch, and measured on the device present all the same.
TEST_CASE("tune, which measures where it runs, takes no --arch", "[tools]") {
  const test::Ran ran = test::kda_tune({"tune", "nosuch", "--arch", "h200"});
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, test::contains("--arch"));
  CHECK(test::kda_tune({"tune", "--help"}).out.find("--arch") == std::string::npos);
}

// The bug: where none was found explain was of an h200, dump of an sm_90a, whose kernels may be
// others, and no help said which.
TEST_CASE("explain and dump are of the same device where none is named", "[tools]") {
  for (const char* command : {"explain", "dump"}) {
    CHECK_THAT(test::kda_tune({command, "--help"}).out,
               test::contains("default: the device found, else h200"));
  }
  CHECK_THAT(test::kda_tune({"build", "--help"}).out, test::contains("else sm_89,sm_90a"));
  CHECK_THAT(test::kda_tune({"bundle", "create", "--help"}).out,
             test::contains("else sm_89,sm_90a"));
  const std::string problem = "h16_8x2048";  // of which the two get different strategies
  const Json dumped = json_of(test::kda_tune({"dump", problem, "-o", "json"}))["kernels"][0];
  const Json explained = json_of(test::kda_tune({"explain", problem, "-o", "json"}));
  int chosen = 0;
  for (const Json& row : explained["candidates"]) {
    if (row["chosen"] != true) continue;
    ++chosen;
    CHECK(test::text(dumped["strategy"]) == test::text(row["strategy"]));
    CHECK(test::text(dumped["tuning"]) == test::text(row["tuning"]));
  }
  CHECK(chosen == 1);
}

// The bug: without a device a case that there is not was exit code 77, as if it had been one.
TEST_CASE("a search for no problem is a wrong word, device or not", "[tools]") {
  const test::Ran ran = test::kda_tune({"tune", "nosuch"});
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, test::contains("there is no case \"nosuch\""));
}

// The bug: a name that a script left empty was noticed once all was compiled, or not at all.
TEST_CASE("kda-tune refuses an empty file name before anything is run", "[tools]") {
  const test::Scratch scratch;
  const std::vector<std::vector<std::string>> lines = {
      {"build", small, "--output", ""},    {"tune", small, "--plot", ""},
      {"plot", "none.jsonl", "--out", ""}, {"wisdom", "export", "--output", ""},
      {"bundle", "create", "", small},     {"bundle", "ls", ""},
  };
  for (const std::vector<std::string>& arguments : lines) {
    const test::Environment cache("KDA_CACHE_DIR", scratch / "cache");
    const test::Ran ran = test::kda_tune(arguments);
    INFO(arguments[0]);
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains("an empty name is no file"));
    CHECK_FALSE(std::filesystem::exists(scratch / "cache"));
  }
}

// The bug: build knew only once all was compiled that there is no such folder.
TEST_CASE("a file that cannot be written is refused before anything is compiled", "[tools]") {
  const test::Scratch scratch;
  const test::Ran ran = test::kda_tune({"build", small, "--arch", "sm_90a", "--cache-dir",
                                        scratch / "cache", "--output", scratch / "none/rows.json"});
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, test::contains("none/rows.json: No such file"));
  CHECK_FALSE(std::filesystem::exists(scratch / "cache"));
}

// The bug: "A subcommand is required", and not which word was none.
TEST_CASE("a word that is no subcommand or option is named", "[tools]") {
  const std::vector<std::vector<std::string>> lines = {{"foo"}, {"--foo"}, {"cache", "foo"}};
  for (const std::vector<std::string>& arguments : lines) {
    const test::Ran ran = test::kda_tune(arguments);
    CHECK(ran.code == 2);
    CHECK(ran.err == "kda-tune: there is no subcommand or option \"" + arguments.back() +
                         "\"; --help shows what there is\n");
  }
  CHECK_THAT(test::kda_tune({}).err, test::contains("--help"));
}

// The bug: 0 was "not in range 2.225074 to 179769...", nan a time, and what no integer holds was
// not said to be too large.
TEST_CASE("a number out of its limits is told them", "[tools]") {
  const std::vector<std::pair<std::vector<std::string>, const char*>> lines = {
      {{"--tp", "0"}, "--tp: 0 is not a whole number from 1 to 1024"},
      {{"--time", "-1"}, "--time: -1 is not a number from 0 to 1000000000"},
      {{"--time", "nan"}, "--time: nan is not a number from 0 to 1000000000"},
      {{"--max-evals", "-1"}, "--max-evals: -1 is not a whole number from 0 to 1000000000"},
      {{"--device", "99999999999"}, "--device: 99999999999 is not a whole number from 0 to 1023"},
      {{"--devices", "0,-1"}, "--devices: -1 is not a whole number from 0 to 1023"},
      {{"--seed", "-1"}, "--seed: -1 is not a whole number from 0 to 9223372036854775807"},
      {{"--seed", "9223372036854775808"}, "is not a whole number from 0 to 9223372036854775807"},
  };
  for (const auto& [options, said] : lines) {
    std::vector<std::string> arguments{"tune", small};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const test::Ran ran = test::kda_tune(arguments);
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains(said));
    CHECK(ran.err.size() < 160);
  }
  CHECK_THAT(test::kda_tune({"build", small, "--jobs", "-1"}).err,
             test::contains("--jobs: -1 is not a whole number from 0 to 1024"));
}

// The bug: of several choices the first was shown, and no word of the others.
TEST_CASE("explain and dump are of one choice", "[tools]") {
  for (const char* command : {"explain", "dump"}) {
    const test::Ran ran = test::kda_tune({command, small, "--arch", "sm_90a", "--strategy",
                                          "recurrent", "--tuning", "threads=64,128"});
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains("name 2 choices; one is wanted"));
  }
}

// The bug: of several tunings a search took the first, all others compiled in vain, and of a list
// or a tunable that no strategy has it failed after the compile, with the code of a failure.
TEST_CASE("a search holds one tuning, and says so before anything is run", "[tools]") {
  const auto wrong = [](const std::vector<std::string>& options, const char* said) {
    std::vector<std::string> arguments{"tune", small};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const test::Ran ran = test::kda_tune(arguments);
    INFO(ran.err);
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains(said));
  };
  wrong({"--tuning", "threads=64", "--tuning", "threads=128"}, "names 2 tunings");
  wrong({"--tuning", "threads=64,128"}, "\"threads=64\" and \"threads=128\"");
  wrong({"--tuning", "warps=3"}, "kda-tune list");
  wrong({"--strategy", "recurrent", "--tuning", "threads=65"}, "threads = 65 is not one of");
  wrong({"--strategy", "flash"}, "recurrent");
  wrong({"--tuning", "otherwise=1"}, "fits none");  // of by_gates, which no search takes unasked
  CHECK_THAT(test::kda_tune({"tune", "--help"}).out, test::contains("one value each"));
}

// The bug: floor, goal and the others' times were numbers of nothing in particular.
TEST_CASE("list says what its times are in", "[tools]") {
  const std::string table = test::kda_tune({"list"}).out;
  for (const char* title : {"floor us", "FLA us", "FlashKDA us", "cuLA us", "bar us", "goal us"}) {
    CHECK_THAT(table, test::contains(title));
  }
}

// The bug: every help of exit code 77 said that it may be for want of NVRTC, which is code 1; and
// compare's that all within the threshold is SAME, however noisy.
TEST_CASE("the help says what exit codes and verdicts are for", "[tools]") {
  CHECK_THAT(test::kda_tune({"--help"}).out,
             test::contains("77 there is no device, so nothing was run"));
  CHECK_THAT(test::kda_tune({"compare", "--help"}).out, test::contains("too noisy to be the same"));
}

TEST_CASE("every format of list prints", "[tools]") {
  for (const char* format : {"table", "json", "jsonl", "csv", "md"}) {
    const test::Ran ran = test::kda_tune({"list", "-o", format});
    INFO(format);
    CHECK(ran.code == 0);
    CHECK_THAT(ran.out, test::contains("recurrent"));
  }
}

// The bug: `bundle create h64` compiled every case, for minutes, into a file of that name.
TEST_CASE("a bundle's file is no case and no model", "[tools]") {
  for (const char* name : {"h64", "kimi-linear-48b"}) {
    const test::Ran ran = test::kda_tune({"bundle", "create", name});
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains(std::string("bundle create kernels.kdab ") + name));
    CHECK_FALSE(std::filesystem::exists(name));
  }
}

// The bug: that it was several problems was all that was said.
TEST_CASE("where one problem is wanted those that are named are listed", "[tools]") {
  const test::Ran two = test::kda_tune({"explain", "T=64,128 H=2"});
  CHECK(two.code == 2);
  CHECK_THAT(two.err, test::contains("this names 2 problems, \"T=64 H=2\", \"T=128 H=2\"; one is"));
  const test::Ran many = test::kda_tune({"explain", "T=64,128 H=1,2,4,8"});
  CHECK_THAT(many.err,
             test::contains("this names 8 problems, ") && test::contains(", ...; one is"));
}

// The bug: why a file could not be read was not said.
TEST_CASE("compare says why a file cannot be read", "[tools]") {
  const test::Ran ran = test::kda_tune({"compare", "/nowhere/before.json", "/nowhere/after.json"});
  CHECK(ran.code != 0);
  CHECK_THAT(ran.err, test::contains("/nowhere/before.json cannot be read: No such file"));
}
