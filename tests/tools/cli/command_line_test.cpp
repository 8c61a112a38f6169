#include "cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/exit_code.hpp"
#include "cli/failure.hpp"
#include "cli/progress.hpp"
#include "support/catch.hpp"

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
