#include "plan/choose.hpp"

#include <string>

#include "problem/problem.hpp"
#include "strategy/table.hpp"
#include "support/catch.hpp"

using namespace kda;

namespace {

Problem problem_of(const char* words) {
  const auto parsed = problem::parse(words);
  REQUIRE(parsed);
  const auto complete = problem::complete(*parsed);
  REQUIRE(complete);
  return *complete;
}

const device::Device& h200() {
  static const device::Device device = *device::parse("h200");
  return device;
}

Status refusal(const Options& options) {
  const auto choice = plan::choose(problem_of("T=1024 H=4"), h200(), options);
  REQUIRE_FALSE(choice);
  return choice.status();
}

}  // namespace

TEST_CASE("without options the cheapest strategy that can serve is taken", "[plan]") {
  const Problem problem = problem_of("T=8192 H=64 h0=1 ht=1");
  const auto choice = plan::choose(problem, h200(), {});
  REQUIRE(choice);
  CHECK(choice->strategy_origin == plan::Origin::cost_model);
  CHECK(choice->tuning_origin == plan::Origin::cost_model);
  CHECK(choice->recipe.strategy == choice->strategy->name);
  CHECK_FALSE(choice->recipe.stages.empty());
  CHECK(choice->microseconds > 0);
  for (const strategy::Strategy* other : strategy::table()) {
    if (!other->applicable(problem, h200())) continue;
    CHECK(choice->microseconds <=
          other->estimate(problem, h200(), other->defaults(problem, h200())));
  }
  // The others are told of.
  CHECK(choice->passed_over.size() + 1 == strategy::table().size());
}

TEST_CASE("long prefill goes by chunks, decode token by token", "[plan]") {
  CHECK(plan::choose(problem_of("T=8192 H=64"), h200(), {})->recipe.strategy != "recurrent");
  CHECK(plan::choose(problem_of("T=64 N=64 H=32 h0=1 ht=1"), h200(), {})->recipe.strategy ==
        "recurrent");
}

TEST_CASE("a forced strategy and tuning are kept and told apart", "[plan]") {
  const Problem problem = problem_of("T=8192 H=64");
  const auto forced = plan::choose(problem, h200(), {.strategy = "recurrent"});
  REQUIRE(forced);
  CHECK(forced->recipe.strategy == "recurrent");
  CHECK(forced->strategy_origin == plan::Origin::forced);
  CHECK(forced->tuning_origin == plan::Origin::cost_model);

  const auto tuned =
      plan::choose(problem, h200(), {.strategy = "recurrent", .tuning = "columns=4"});
  REQUIRE(tuned);
  CHECK(tuned->tuning_origin == plan::Origin::forced);
  CHECK_THAT(tunable::to_text(tuned->recipe.tuning), test::contains("columns=4"));
}

TEST_CASE("a tuning alone picks among the strategies that know it", "[plan]") {
  const auto choice = plan::choose(problem_of("T=8192 H=64"), h200(), {.tuning = "columns=4"});
  REQUIRE(choice);
  CHECK(choice->recipe.strategy == "recurrent");
  CHECK(choice->strategy_origin == plan::Origin::cost_model);
}

TEST_CASE("named tunables are kept and the rest bent until the recipe fits", "[plan]") {
  // On 99 KB of shared memory long chunks leave no room for every default.
  const Problem problem = problem_of("T=8192 H=64 K=128 V=128 h0=1 ht=1");
  const device::Device l40s = *device::parse("l40s");
  for (const char* named : {"chunk=16", "chunk=32", "chunk=64"}) {
    const auto choice = plan::choose(problem, l40s, {.strategy = "chunk", .tuning = named});
    INFO(named << ": " << choice.status().message());
    REQUIRE(choice);
    CHECK_THAT(tunable::to_text(choice->recipe.tuning), test::contains(named));
  }
}

TEST_CASE("unknown strategies and tunables are invalid arguments", "[plan]") {
  const Status strategy = refusal({.strategy = "quick"});
  CHECK(strategy.code() == Code::invalid_argument);
  CHECK(strategy.message() == "strategy = 'quick'; there are " + strategy::known_names());

  const Status tunable = refusal({.strategy = "recurrent", .tuning = "speed=11"});
  CHECK(tunable.code() == Code::invalid_argument);
  CHECK_THAT(tunable.message(), test::contains("no tunable 'speed'"));

  const Status anywhere = refusal({.tuning = "speed=11"});
  CHECK(anywhere.code() == Code::invalid_argument);
  CHECK_THAT(anywhere.message(), test::contains("'speed' (no strategy's)"));

  const Status value = refusal({.strategy = "recurrent", .tuning = "columns=17"});
  CHECK(value.code() == Code::invalid_argument);
  CHECK_THAT(value.message(), test::contains("columns = 17 is not one of"));
}

TEST_CASE("options name a device, or its name", "[plan]") {
  const auto named = plan::device_of({.target = "h200"});
  REQUIRE(named);
  CHECK_FALSE(named->present());
  const auto unknown = plan::device_of({.target = "abacus"});
  CHECK(unknown.status().code() == Code::invalid_argument);
  CHECK_THAT(unknown.status().message(), test::contains("abacus"));
  const auto negative = plan::device_of({.device = -2});
  CHECK(negative.status().code() == Code::invalid_argument);
  CHECK_THAT(negative.status().message(), test::contains("device = -2"));
}
