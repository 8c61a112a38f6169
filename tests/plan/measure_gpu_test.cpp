// Effort::measure on the device: what is timed there keeps what the problem promises.
#include "plan/kept.hpp"
#include "support/scratch.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"
#include "tune/wisdom.hpp"

using namespace kda;
using namespace kda::test;

// The bug: rows of q and k were of about unit length, so that strategies that a promise of unit
// length admits made NaN, and were no candidates.
TEST_CASE("an application's search finds inputs as promised", "[gpu]") {
  if (!on_device()) return;
  for (const char* words : {"T=512 H=4 l2norm=0 qk_normalized=1 beta_logit=0 beta_most_1=1",
                            "T=512 H=4 K=60 V=100 l2norm=0 qk_normalized=1 varlen=1 N=2"}) {
    const Scratch folder;
    Options options{.effort = Effort::measure, .time_limit_seconds = 20};
    options.cache_dir = options.wisdom_dir = folder.path();
    options.strategy = "chunk_wgmma";
    options.tuning = "chunk=32 prepare_threads=256 warpgroups=1 short_tokens=1 columns=64";
    const Result<Plan> plan = Plan::make(problem_in_words(words), options);
    INFO(words << ": " << plan.status().message());
    REQUIRE(plan);
    INFO(plan->describe());
    CHECK_THAT(plan->describe(), contains("measured now in"));
  }
}

// The bug: of a dense problem whose N does not divide T no candidate was right, as rows of o that
// no sequence has were compared, too; each such plan searched in vain and was the cost model's.
TEST_CASE("an application's search serves dense runs of any T and N", "[gpu]") {
  if (!on_device()) return;
  for (const char* words : {"T=1000 N=3 H=4", "T=4 N=8 H=2"}) {
    const Scratch folder;
    Options options{.effort = Effort::measure, .time_limit_seconds = 5};
    options.cache_dir = options.wisdom_dir = folder.path();
    const Result<Plan> plan = Plan::make(problem_in_words(words), options);
    INFO(words << ": " << plan.status().message());
    REQUIRE(plan);
    INFO(plan->describe());
    CHECK_THAT(plan->describe(), contains("measured now in"));
  }
}

// The bug: where plans are to know nothing of measurements, a search was answered by what had been
// measured before, as "measured now".
TEST_CASE("KDA_TUNE=off measures, whatever is known", "[gpu]") {
  if (!on_device()) return;
  const Scratch folder;
  Options options{.effort = Effort::measure, .time_limit_seconds = 5};
  options.cache_dir = options.wisdom_dir = folder.path();
  const Problem problem = problem_in_words("T=128 H=2 K=64 V=64");
  REQUIRE(Plan::make(problem, options));
  const auto wisdom = tune::shared_wisdom(options.wisdom_dir, options.cache_dir);
  const auto listed = wisdom->list();
  REQUIRE_FALSE(listed.empty());
  REQUIRE(listed[0].source == tune::Source::user);
  tune::Record planted = *listed[0].record;
  planted.date = "2001-01-01T00:00:00Z";
  planted.decision = "planted";
  REQUIRE(wisdom->add(planted));
  const auto evidence = [&] {
    plan::forget_all();
    return Plan::make(problem, options)->describe();
  };
  {
    const Environment read("KDA_TUNE", "read");
    CHECK_THAT(evidence(), contains("wisdom of 2001-01-01") && !contains("measured now"));
  }
  const Environment off("KDA_TUNE", "off");
  CHECK_THAT(evidence(), contains("measured now") && !contains("planted"));
}
