// The problem on which candidates are verified has the kernels of the one that they are for.
#include "tune/small_problem.hpp"

#include <set>
#include <string>
#include <utility>

#include "strategy/table.hpp"
#include "support/catch.hpp"
#include "support/words.hpp"
#include "tune/candidate.hpp"

using namespace kda;
using namespace kda::test;

namespace {

// Template and prelude of each.
std::set<std::pair<std::string, std::string>> kernels_of(const Problem& problem,
                                                         const tune::Candidate& candidate) {
  const auto* strategy = strategy::find(candidate.strategy);
  REQUIRE(strategy != nullptr);
  const auto recipe = strategy->compose(problem, h200(), candidate.tuning);
  INFO(recipe.status().message());
  REQUIRE(recipe);
  std::set<std::pair<std::string, std::string>> kernels;
  for (const compose::Stage& stage : recipe->stages) kernels.emplace(stage.file, stage.prelude);
  return kernels;
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
    CHECK((kernels_of(small.problem, *candidate) == kernels_of(problem, *candidate)));
  }
}
