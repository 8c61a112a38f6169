#include "cli/progress.hpp"

#include "support/catch.hpp"
#include "tools/run_tool.hpp"

using namespace kda;

TEST_CASE("off a terminal, progress is plain lines", "[tools]") {
  std::FILE* file = std::tmpfile();
  {
    cli::Progress progress(file, 2, false);
    progress.step("first");
    progress.note("h64: skipped");
    progress.step("second");
  }
  const std::string text = test::text_of(file);
  CHECK_THAT(text, test::contains("[1/2]"));
  CHECK_THAT(text, test::contains("first\nh64: skipped\n[2/2]"));
  CHECK(text.find('\r') == std::string::npos);
}

TEST_CASE("quiet progress says nothing", "[tools]") {
  std::FILE* file = std::tmpfile();
  {
    cli::Progress progress(file, 1, true);
    progress.step("first");
    progress.note("note");
  }
  CHECK(test::text_of(file).empty());
}
