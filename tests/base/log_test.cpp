#include "base/log.hpp"

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/scratch.hpp"

namespace {
namespace log = kda::base::log;  // unnamed: math.h has a ::log
}
using kda::LogLevel;
using kda::test::contains;
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
