#include "cli/words.hpp"

#include "support/catch.hpp"

using namespace kda;
using Texts = std::vector<std::string>;

namespace {

Texts expand(const char* text, const Texts& kept = {}) {
  const auto texts = cli::expand(text, kept);
  REQUIRE(texts);
  return *texts;
}

}  // namespace

TEST_CASE("lists expand to every combination, the last running fastest", "[tools]") {
  CHECK(expand("chunk=16,32 shards=1,2") ==
        Texts{"chunk=16 shards=1", "chunk=16 shards=2", "chunk=32 shards=1", "chunk=32 shards=2"});
  CHECK(expand("chunk=64") == Texts{"chunk=64"});
  CHECK(expand("  h64   T=1,2 ") == Texts{"h64 T=1", "h64 T=2"});
  CHECK(expand("") == Texts{""});
}

TEST_CASE("kept words keep their lists", "[tools]") {
  CHECK(expand("H=1,2 seqlens=3,4", {"seqlens"}) == Texts{"H=1 seqlens=3,4", "H=2 seqlens=3,4"});
}

TEST_CASE("an empty item stays, for the reader of the value to refuse", "[tools]") {
  CHECK(expand("T=1,,2") == Texts{"T=1", "T=", "T=2"});
}

TEST_CASE("a word is taken out by its whole name", "[tools]") {
  std::string text = "T=8 gate=bounded gate_regime=weak N=1";
  CHECK(cli::take(text, "gate_regime") == "weak");
  CHECK(text == "T=8 gate=bounded N=1");
  CHECK_FALSE(cli::take(text, "gate_regime"));
  CHECK(cli::take(text, "gate") == "bounded");
  CHECK(text == "T=8 N=1");
}

TEST_CASE("ranges run by steps, by factors, ends included", "[tools]") {
  CHECK(expand("H=16..64:16") == Texts{"H=16", "H=32", "H=48", "H=64"});
  CHECK(expand("H=16..63:16") == Texts{"H=16", "H=32", "H=48"});
  CHECK(expand("T=512..4096*2") == Texts{"T=512", "T=1024", "T=2048", "T=4096"});
  CHECK(expand("N=1..3,8") == Texts{"N=1", "N=2", "N=3", "N=8"});
  CHECK(expand("N=4..4") == Texts{"N=4"});
}

TEST_CASE("what only looks like a range stays, for the reader of the value to refuse", "[tools]") {
  for (const char* text : {"H=16..", "H=..64", "H=1..8:2:2", "H=a..b"}) {
    CHECK(expand(text) == Texts{text});
  }
}

// The bug: these went on to the reader of the value, which said "'8192..4' is not an integer".
TEST_CASE("a range without values says what is wrong with it", "[tools]") {
  const auto refusal = [](const char* text) {
    const auto texts = cli::expand(text);
    INFO(text);
    REQUIRE_FALSE(texts);
    return texts.status().message();
  };
  CHECK(refusal("T=8192..4") == "T: the range 8192..4 begins above its end; 4..8192 does not");
  CHECK(refusal("T=1..8*1") == "T: the range 1..8*1 multiplies by 1; at least 2 is wanted");
  CHECK_THAT(refusal("H=0..8*2"), test::contains("multiplies from 0; at least 1"));
  CHECK_THAT(refusal("H=1..8:0"), test::contains("steps of 0; at least 1"));
  CHECK_THAT(refusal("H=1..8:-1"), test::contains("steps of -1; at least 1"));
}

// The bug: the step was taken off the last value, which overflowed at the least one.
TEST_CASE("a range may lie at either end of the integers", "[tools]") {
  CHECK(expand("T=-9223372036854775808..-9223372036854775808") == Texts{"T=-9223372036854775808"});
  CHECK(expand("T=-9223372036854775808..9223372036854775807:9223372036854775807") ==
        Texts{"T=-9223372036854775808", "T=-1", "T=9223372036854775806"});
}

TEST_CASE("a range too long to be meant is refused, not built", "[tools]") {
  for (const char* text : {"T=1..9223372036854775807", "T=1..200 N=1..200", "T=0..20000"}) {
    const auto texts = cli::expand(text);
    REQUIRE_FALSE(texts);
    CHECK_THAT(texts.status().message(), test::contains("16..64:16"));
  }
}
