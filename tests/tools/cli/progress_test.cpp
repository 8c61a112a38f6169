#include "cli/progress.hpp"

#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "tools/run_tool.hpp"

using namespace kda;

namespace {

// What a terminal's other end shows, up to `end` or to where nothing came for ten seconds.
std::string shown_until(int terminal, std::string_view end) {
  std::string text;
  for (pollfd wait{terminal, POLLIN, 0}; !text.ends_with(end) && poll(&wait, 1, 10'000) > 0;) {
    char bytes[512];
    const ssize_t n = read(terminal, bytes, sizeof bytes);
    if (n <= 0) break;
    text.append(bytes, static_cast<std::size_t>(n));
  }
  return text;
}

}  // namespace

TEST_CASE("off a terminal, progress is a plain line now and then", "[tools]") {
  std::FILE* file = std::tmpfile();
  {
    cli::Progress progress(file, 2, {});
    progress.step("first");
    progress.within(0.5, "timing 5 of 10");
    progress.note("h64: skipped");
    progress.step("second");  // well within 10 s
  }
  CHECK(test::text_of(file) == "0 s so far, 1/2  first\nh64: skipped\n");
}

TEST_CASE("a line says what the step is at and how long is left", "[tools]") {
  std::FILE* file = std::tmpfile();
  {
    cli::Progress progress(file, 2, {.between_lines = std::chrono::seconds(0)});
    progress.step("first");
    progress.within(0.5, "timing 5 of 10");
    progress.step("second");
  }
  CHECK(test::text_of(file) ==
        "0 s so far, 1/2  first\n"
        "0 s so far, 1/2, 0 s left  first: timing 5 of 10\n"
        "0 s so far, 2/2, 0 s left  second\n");
}

TEST_CASE("a limit bounds the time left", "[tools]") {
  std::FILE* file = std::tmpfile();
  {
    cli::Progress progress(file, 1000, {.limit_seconds = 125});
    progress.step("first");
  }
  CHECK(test::text_of(file) == "0 s so far, 1/1000, 2:05 min left  first\n");
}

TEST_CASE("quiet progress says nothing", "[tools]") {
  std::FILE* file = std::tmpfile();
  {
    cli::Progress progress(file, 1, {.quiet = true});
    progress.step("first");
    progress.within(0.5, "detail");
    progress.note("note");
  }
  CHECK(test::text_of(file).empty());
}

TEST_CASE("on a terminal, progress is one bar no wider than it, wiped out at the end", "[tools]") {
  int master = -1, slave = -1;
  const winsize size{24, 60, 0, 0};
  REQUIRE(openpty(&master, &slave, nullptr, nullptr, &size) == 0);
  std::FILE* terminal = fdopen(slave, "w");
  {
    cli::Progress progress(terminal, 4, {});
    progress.step("h64 with a name that is much too long for a line of this width");
  }
  std::fflush(terminal);
  // One read had only the bar, as a terminal hands on each write by itself, when it comes to it.
  const std::string text = shown_until(master, "\r\033[K");
  const std::size_t bar = text.find("[.");
  CHECK(text.find('\r', bar) - bar == 59);
  CHECK_THAT(text, test::contains("[........................] 1/4  h64"));
  CHECK(text.ends_with("\r\033[K"));
  std::fclose(terminal);
  close(master);
}

TEST_CASE("durations are short for people", "[tools]") {
  CHECK(cli::duration_text(-1) == "0 s");
  CHECK(cli::duration_text(59.4) == "59 s");
  CHECK(cli::duration_text(125) == "2:05 min");
  CHECK(cli::duration_text(3725) == "1:02 h");
}
