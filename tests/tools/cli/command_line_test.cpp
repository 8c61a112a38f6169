#include "cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/exit_code.hpp"
#include "cli/failure.hpp"
#include "cli/progress.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

using namespace kda;

namespace {

int run_of(const char* word, std::FILE* out, std::FILE* err) {
  CLI::App app("does nothing", "nothing");
  const char* const argv[] = {"nothing", word};
  return cli::run(app, 2, argv, out, err, [] { return 0; });
}

}  // namespace

// The bug: what could not be written to stderr ended the tool by std::terminate, hours of tuning
// with it.
TEST_CASE("a stderr that takes nothing ends no work", "[tools]") {
  std::FILE* const full = std::fopen("/dev/full", "w");
  std::FILE* const null = std::fopen("/dev/null", "w");
  REQUIRE(full != nullptr);
  REQUIRE(null != nullptr);
  std::setvbuf(full, nullptr, _IONBF, 0);
  CHECK(run_of("--nonsense", null, full) == cli::kBadCommand);
  CHECK(run_of("--help", null, full) == cli::kOk);
  CHECK(run_of("--help", full, null) == cli::kFailed);
  cli::Progress progress(full, 2, {.between_lines = std::chrono::duration<double>(0)});
  progress.wait("something");
  progress.step("a step");
  progress.note("a note");
  std::fclose(full);
  std::fclose(null);
}

// The bug: a row measured under KDA_TUNE=off, or without kept graphs, named a command that measures
// something else.
TEST_CASE("a command line names the variables that decide what is measured", "[tools]") {
  const test::Environment tune("KDA_TUNE", "off");
  const test::Environment wisdom("KDA_WISDOM_PATH", "/a b:/c");
  const test::Environment graphs("KDA_KEEP_GRAPHS", nullptr);
  const test::Environment own("KDA_WISDOM_DIR", nullptr);
  const test::Environment flags("NVRTC_APPEND_FLAGS", nullptr);
  const test::Environment directory("KDA_CACHE_DIR", "/x");  // only where kernels are kept
  const char* const argv[] = {"/usr/bin/kda-bench", "T=8 H=1", "it's", "--quiet"};
  CHECK(cli::command_line(4, argv) ==
        "KDA_WISDOM_PATH='/a b:/c' KDA_TUNE=off kda-bench 'T=8 H=1' 'it'\\''s' --quiet");
}
