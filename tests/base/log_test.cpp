#include "base/log.hpp"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fork.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace {
namespace log = kda::base::log;  // unnamed: math.h has a ::log
}
using kda::LogLevel;
using kda::test::contains;
using kda::test::in_child;
using kda::test::run_case_apart;

TEST_CASE("a sink gets its level and above, and nothing once it is gone") {
  std::vector<std::string> seen;
  kda::set_log(LogLevel::warn, [&](LogLevel level, std::string_view text) {
    seen.push_back(std::to_string(static_cast<int>(level)) + " " + std::string(text));
  });
  CHECK_FALSE(log::enabled(LogLevel::info));
  CHECK(log::enabled(LogLevel::warn));
  CHECK_FALSE(log::enabled(LogLevel::off));
  log::info("quiet");
  log::warn("loud {} %s");
  log::error("louder");
  kda::set_log(LogLevel::off);
  log::error("unheard");
  CHECK(seen == std::vector<std::string>{"3 loud {} %s", "4 louder"});
}

TEST_CASE("a sink that throws harms nobody") {
  kda::set_log(LogLevel::warn, [](LogLevel, std::string_view) { throw 1; });
  log::warn("lost");
  kda::set_log(LogLevel::off);
}

// The bug: a thread that said something while it held a mutex which forks take waited in its sink
// for Python's interpreter, and the thread that had that, forking, for the mutex.
TEST_CASE("what is said while forks would wait is written when they would not, in order") {
  std::vector<std::string> seen;
  bool held = false;
  kda::set_log(LogLevel::info, [&](LogLevel, std::string_view text) {
    held |= kda::base::holds_a_fork_mutex();
    seen.emplace_back(text);
  });
  {
    kda::base::ForkMutex outer(kda::base::ForkRank::toolchain), inner(kda::base::ForkRank::nvrtc);
    const std::lock_guard one(outer);
    {
      const std::lock_guard two(inner);
      log::info("first");
    }
    log::debug("never");
    log::info("third");
    CHECK(seen.empty());
  }
  CHECK(seen == std::vector<std::string>{"first", "third"});
  CHECK_FALSE(held);
  log::info("at once");
  CHECK(seen.size() == 3);
  kda::set_log(LogLevel::off);
}

// The bug: a child of fork() waited for ever to say something, for a thread of its parent that was
// at it when it forked.
TEST_CASE("a child of fork() logs, whatever its parent's threads were saying") {
  std::atomic<bool> speaks = false, ends = false;
  kda::set_log(LogLevel::warn, [&](LogLevel, std::string_view text) {
    if (text != "long") return;
    speaks = true;
    while (!ends) std::this_thread::yield();
  });
  std::thread speaker([] { log::warn("long"); });
  while (!speaks) std::this_thread::yield();
  const int code = in_child([] {
    ::alarm(20);
    log::warn("short");
    kda::set_log(LogLevel::off);
    log::warn("unheard");
    return 0;
  });
  ends = true;
  speaker.join();
  kda::set_log(LogLevel::off);
  CHECK(code == 0);
}

TEST_CASE("apart: says one warning and one debug message", "[.]") {
  log::warn("a warning {}");
  log::debug("a detail");
}

TEST_CASE("KDA_LOG decides what reaches stderr, and silence is the default") {
  const char* name = "apart: says one warning and one debug message";
  CHECK_THAT(run_case_apart(name, {{"KDA_LOG", ""}}).output, !contains("a warning"));
  CHECK_THAT(run_case_apart(name, {{"KDA_LOG", "warn"}}).output,
             contains("warning: a warning {}") && !contains("a detail"));
  CHECK_THAT(run_case_apart(name, {{"KDA_LOG", "Trace"}}).output, contains("a detail"));
  CHECK_THAT(run_case_apart(name, {{"KDA_LOG", "loud"}}).output,
             contains("KDA_LOG=\"loud\" is none of") && contains("a warning"));
}
