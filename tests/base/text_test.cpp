#include "base/text.hpp"

#include "support/catch.hpp"

namespace base = kda::base;
using kda::test::contains;

TEST_CASE("trim, split and words") {
  CHECK(base::trim(" \t a b \n") == "a b");
  CHECK(base::trim(" \t ").empty());
  CHECK(base::split("a,,b", ',') == std::vector<std::string_view>{"a", "", "b"});
  CHECK(base::split("", ',') == std::vector<std::string_view>{""});
  CHECK(base::words("  a\tbc \n d ") == std::vector<std::string_view>{"a", "bc", "d"});
  CHECK(base::words(" ").empty());
}

TEST_CASE("numbers are the whole text or nothing") {
  CHECK(base::parse_integer("-42") == -42);
  CHECK(base::parse_integer("9223372036854775807") == INT64_MAX);
  for (const char* text : {"", " 1", "1 ", "1k", "0x10", "9223372036854775808", "1.0"}) {
    INFO(text);
    CHECK_FALSE(base::parse_integer(text).has_value());
  }
  CHECK(base::parse_number("-1.5e3") == -1500.0);
  CHECK_FALSE(base::parse_number("1.5x").has_value());
  CHECK(base::parse_switch("On") == true);
  CHECK(base::parse_switch("0") == false);
  CHECK_FALSE(base::parse_switch("maybe").has_value());
}

TEST_CASE("settings read in their order") {
  const auto settings = base::parse_settings("  chunk=32,shards=2  note=\"two \\\"words\\\"\" e=");
  REQUIRE(settings);
  REQUIRE(settings->size() == 4);
  CHECK((*settings)[0].name == "chunk");
  CHECK((*settings)[0].value == "32");
  CHECK((*settings)[1].value == "2");
  CHECK((*settings)[2].value == "two \"words\"");
  CHECK((*settings)[3].value.empty());
  CHECK(base::parse_settings("")->empty());
}

TEST_CASE("settings that say nothing sensible are refused with the reason") {
  const auto refuses = [](const char* text, const char* why) {
    const auto settings = base::parse_settings(text);
    INFO(text);
    REQUIRE_FALSE(settings);
    CHECK(settings.status().code() == kda::Code::invalid_argument);
    CHECK_THAT(settings.status().message(), contains(why));
  };
  refuses("chunk", "\"chunk\" has no '='");
  refuses("=3", "no name");
  refuses("a=1 a=2", "a is given twice");
  refuses("a=\"1", "never closes");
  refuses("a=\"1\\", "never closes");
  refuses("a=\"1\\x4", "never closes");
  refuses("a=\"1\"b", "follows the closing quote");
}

TEST_CASE("settings survive a round trip whatever their values hold") {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const std::vector<base::Setting> before = {
      {"plain", "x"}, {"empty", ""}, {"blank", "a b"}, {"comma", "a,b"}, {"all", all}};
  const auto after = base::parse_settings(base::to_text(before));
  REQUIRE(after);
  REQUIRE(after->size() == before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK((*after)[i].name == before[i].name);
    CHECK((*after)[i].value == before[i].value);
  }
}

TEST_CASE("bytes for people") {
  CHECK(kda::base::bytes_text(0) == "0 B");
  CHECK(kda::base::bytes_text(999) == "999 B");
  CHECK(kda::base::bytes_text(1500) == "1.5 kB");
  CHECK(kda::base::bytes_text(3200000) == "3.2 MB");
  CHECK(kda::base::bytes_text(18000000000000000000U) == "18000000.0 TB");
}
