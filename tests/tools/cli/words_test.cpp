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
  for (const char* text : {"H=16..", "H=..64", "H=64..16", "H=1..8:0", "H=1..8:-1", "H=1..8*1",
                           "H=0..8*2", "H=1..8:2:2", "H=a..b"}) {
    CHECK(expand(text) == Texts{text});
  }
}

TEST_CASE("a range too long to be meant is refused, not built", "[tools]") {
  for (const char* text : {"T=1..9223372036854775807", "T=1..200 N=1..200", "T=0..20000"}) {
    const auto texts = cli::expand(text);
    REQUIRE_FALSE(texts);
    CHECK_THAT(texts.status().message(), test::contains("16..64:16"));
  }
}
