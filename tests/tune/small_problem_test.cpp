// The problem on which candidates are verified has the kernels of the one that they are for.
#include "tune/small_problem.hpp"

#include "strategy/table.hpp"
#include "support/catch.hpp"
#include "support/words.hpp"
#include "tune/candidate.hpp"

using namespace kda;
using namespace kda::test;

namespace {

compose::Recipe recipe_of(const Problem& problem, const tune::Candidate& candidate) {
  const auto* strategy = strategy::find(candidate.strategy);
  REQUIRE(strategy != nullptr);
  const auto recipe = strategy->compose(problem, h200(), candidate.tuning);
  INFO(recipe.status().message());
  REQUIRE(recipe);
  return *recipe;
}

}  // namespace

// The bug (in no release): whether segments give T up depended on the tokens of a run, so that of
// long ones other kernels were verified than timed.
TEST_CASE("a small problem has the kernels of the problem itself") {
  struct Row {
    const char *words, *strategy, *tuning;
  };
  for (const Row& row : {Row{"T=65536 H=8 h0=1 ht=1", "segments", "segment=256 segments=1"},
                         Row{"T=65536 H=8 h0=1 ht=1", "segments", "segment=128 segments=1"},
                         Row{"T=65536 H=8 h0=1 ht=1", "segments", "segment=16 segments=5"},
                         Row{"T=65536 H=8 h0=1 ht=1", "by_gates", "segments=8 carries=2"},
                         Row{"T=8192 H=8 h0=1 ht=1", "segments", "segment=32 warpgroups=2"},
                         Row{"T=65536 H=8 N=3 varlen=1 h0=1 ht=1", "segments", "segment=256"},
                         Row{"T=8192 H=16 h0=1 ht=1", "chunk_wgmma", "stages_at_once=2"},
                         Row{"T=8192 H=64 h0=1 ht=1", "chunk_wgmma", "stages_at_once=1"},
                         Row{"T=8192 H=64 N=8 varlen=1 h0=1 ht=1", "fused", "groups=4"},
                         Row{"T=8192 H=64 h0=1 ht=1", "fused", "groups=3"},
                         Row{"T=8192 H=4 qkv=f32 h0=1 ht=1", "chunk", "chunk=32"}}) {
    INFO(row.words << ", " << row.strategy << " " << row.tuning);
    const Problem problem = problem_in_words(row.words);
    const auto candidate = tune::parse_candidate(row.strategy, row.tuning);
    REQUIRE(candidate);
    const auto small = tune::small_problem(problem);
    CHECK(
        tune::has_kernels_of(recipe_of(problem, *candidate), recipe_of(small.problem, *candidate)));
  }
}

// The bug: a dense problem whose N does not divide T was searched with T tokens, of which the last
// belonged to no sequence and came out as NaN, so that every candidate was wrong; and with fewer
// tokens than sequences kernels got sequences without any.
TEST_CASE("a search runs as many tokens of a dense problem as its sequences have") {
  using Lengths = std::vector<std::int64_t>;
  CHECK(tune::usual_lengths(problem_in_words("T=8192 N=3 H=1")) == Lengths{2730, 2730, 2730});
  CHECK(tune::usual_lengths(problem_in_words("T=4 N=8 H=1")) == Lengths{1, 1, 1, 1});
  CHECK(tune::usual_lengths(problem_in_words("T=8 N=4 H=1")) == Lengths{2, 2, 2, 2});
  CHECK(tune::usual_lengths(problem_in_words("T=4 N=8 H=1 varlen=1")).size() == 8);
}

// Tokens of no sequence would come out as NaN, too; sequences of too many would read past them.
TEST_CASE("a search runs all tokens of a packed problem", "[tune]") {
  using Lengths = std::vector<std::int64_t>;
  CHECK(tune::usual_lengths(problem_in_words("T=8 N=3 H=1 varlen=1")) == Lengths{3, 3, 2});
  CHECK(tune::usual_lengths(problem_in_words("T=100 N=4 H=1 varlen=1 mixed=1")) ==
        Lengths{1, 1, 1, 97});
}

TEST_CASE("kernels of another tuning are not those of a problem", "[tune]") {
  const Problem problem = problem_in_words("T=8192 H=8 h0=1 ht=1");
  const auto recipe = [&](const char* tuning) {
    const auto candidate = tune::parse_candidate("recurrent", tuning);
    REQUIRE(candidate);
    return recipe_of(problem, *candidate);
  };
  const compose::Recipe one = recipe("threads=64 lanes=16 columns=2 stages=2");
  CHECK(tune::has_kernels_of(one, one));
  CHECK_FALSE(tune::has_kernels_of(one, recipe("threads=64 lanes=8 columns=2 stages=2")));
}

// The bug (in no release): of segments of more than 256 chunks by_gates has kernels that may go
// another way, and a search took those of a small problem, which may not, for the same.
TEST_CASE("of long segments by_gates is verified at its own size, too") {
  const auto candidate = tune::parse_candidate("by_gates", "segments=8 otherwise=3 carries=2");
  REQUIRE(candidate);
  const auto has_all = [&](const char* words) {
    const Problem problem = problem_in_words(words);
    return tune::has_kernels_of(recipe_of(problem, *candidate),
                                recipe_of(tune::small_problem(problem).problem, *candidate));
  };
  CHECK(has_all("T=65536 H=8 h0=1 ht=1"));
  CHECK_FALSE(has_all("T=131072 H=8 h0=1 ht=1"));
}
