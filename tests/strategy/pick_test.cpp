// What is said of a tuning that no strategy takes; the choices themselves are in the tests of the
// strategies.
#include "strategy/pick.hpp"

#include <string>

#include "support/catch.hpp"
#include "support/words.hpp"

using namespace kda;

namespace {

std::string refusal(const std::string& words, const std::string& strategy = "") {
  const auto pick =
      strategy::pick(test::problem_in_words("T=8192 H=64"), test::h200(), strategy, words);
  INFO(words);
  REQUIRE_FALSE(pick);
  CHECK(pick.status().code() == Code::invalid_argument);
  return pick.status().message();
}

}  // namespace

// The bug: of a value that is none, with no strategy named, what was said came from whichever
// strategy stood last in the table, without its name: "there is no tunable 'chunk'".
TEST_CASE("a tuning that fits no strategy is told which have its tunables", "[strategy]") {
  CHECK(refusal("chunk=31") ==
        "tuning: chunk = 31 is not one of 16, 32, 64 (chunk, chunk_wgmma, segments)");
  // Each that has it says what it takes.
  CHECK_THAT(refusal("segments=9999"), test::contains("(segments)"));
  CHECK_THAT(refusal("columns=3"), test::contains("is not one of 1, 2, 4, 8 (recurrent)") &&
                                       test::contains("is not one of 32, 64 (chunk_wgmma)"));
  CHECK_THAT(refusal("warps=3"), test::contains("'warps' (no strategy's)"));
  CHECK_THAT(refusal("warps=3 lanes=4 chunk=32"),
             test::contains("'lanes' (recurrent)") &&
                 test::contains("'chunk' (chunk, chunk_wgmma, segments)"));
  CHECK_THAT(refusal("chunk"), test::contains("\"chunk\" has no '='"));
}

TEST_CASE("of a tuning for one strategy it is that which complains", "[strategy]") {
  CHECK(refusal("chunk=31", "chunk") == "tuning: chunk = 31 is not one of 16, 32, 64");
  CHECK_THAT(refusal("lanes=4", "chunk"), test::contains("no tunable 'lanes'; there are chunk"));
}

// The bug: of a strategy that the caller had named, "no strategy serves this problem"; then its
// name three times, "strategy fused does not serve ...: fused (strategy fused: ...)".
TEST_CASE("a named strategy that does not serve a problem is not all of them", "[strategy]") {
  const Problem problem = test::problem_in_words("T=8192 H=64");
  const auto l40s = device::parse("l40s");
  REQUIRE(l40s);
  const Status named = strategy::pick(problem, *l40s, "fused", "").status();
  CHECK(named.code() == Code::unsupported);
  INFO(named.message());
  CHECK(named.message().starts_with("strategy fused does not serve this problem on " + l40s->name +
                                    ": " + l40s->name + " has compute capability 8.9"));
  CHECK(strategy::pick(problem, *l40s, "", ""));

  const auto none =
      strategy::pick(test::problem_in_words("T=8192 H=64 V=8192 wy=64 h0=0 ht=0"), *l40s, "", "");
  CHECK(none.status().message().starts_with("no strategy serves this problem on "));
  CHECK_THAT(none.status().message(),
             test::contains("; fused (" + l40s->name + " has compute capability 8.9"));
}
