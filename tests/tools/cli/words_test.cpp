#include "cli/words.hpp"

#include "support/catch.hpp"

using namespace kda;
using Texts = std::vector<std::string>;

TEST_CASE("lists expand to every combination, the last running fastest", "[tools]") {
  CHECK(cli::expand("chunk=16,32 shards=1,2") ==
        Texts{"chunk=16 shards=1", "chunk=16 shards=2", "chunk=32 shards=1", "chunk=32 shards=2"});
  CHECK(cli::expand("chunk=64") == Texts{"chunk=64"});
  CHECK(cli::expand("  h64   T=1,2 ") == Texts{"h64 T=1", "h64 T=2"});
  CHECK(cli::expand("") == Texts{""});
}

TEST_CASE("kept words keep their lists", "[tools]") {
  CHECK(cli::expand("H=1,2 seqlens=3,4", {"seqlens"}) ==
        Texts{"H=1 seqlens=3,4", "H=2 seqlens=3,4"});
}

TEST_CASE("an empty item stays, for the reader of the value to refuse", "[tools]") {
  CHECK(cli::expand("T=1,,2") == Texts{"T=1", "T=", "T=2"});
}

TEST_CASE("a word is taken out by its whole name", "[tools]") {
  std::string text = "T=8 gate=bounded gate_regime=weak N=1";
  CHECK(cli::take(text, "gate_regime") == "weak");
  CHECK(text == "T=8 gate=bounded N=1");
  CHECK_FALSE(cli::take(text, "gate_regime"));
  CHECK(cli::take(text, "gate") == "bounded");
  CHECK(text == "T=8 N=1");
}
