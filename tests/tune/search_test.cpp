#include "tune/search.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <string>

#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tune/build.hpp"
#include "tune/crowd.hpp"

using namespace kda;
using test::FormulaMeasurer;

namespace {

// Few kernels and quick to compile: every search here is over strategy recurrent.
const char* const kWords = "T=256 N=4 H=2 K=32 V=32 h0=1 ht=1";

double by_lanes(const tune::Candidate& candidate) {
  return 100 + 10 * std::abs(std::log2(test::value_of(candidate, "lanes") / 16.0)) +
         0.5 * test::value_of(candidate, "columns");
}

struct Fixture {
  test::Scratch scratch;
  cache::Cache cache{scratch / "cache"};
  Problem problem = test::problem_in_words(kWords);
  std::vector<std::int64_t> lengths = {64, 64, 64, 64};
  tune::SearchOptions options;

  Fixture() {
    options.scope.strategies = {"recurrent"};
    options.scope.tuning = "threads=64 stages=2";
  }

  Result<tune::SearchResult> search(tune::Measurer& measurer) {
    return tune::search(problem, lengths, test::h200(), cache, measurer, options);
  }

  Result<tune::Journal> journal(bool resume) const {
    const auto environment = tune::environment_of(test::h200());
    if (!environment) return environment.status();
    return tune::Journal::open(scratch / "j.jsonl",
                               {problem, lengths, *environment, "halving", 1, "today"}, resume);
  }
};

}  // namespace

TEST_CASE("every method finds the formula's best, and says what it went through",
          "[tune][compile]") {
  Fixture f;
  for (const tune::Method method : {tune::Method::halving, tune::Method::exhaustive,
                                    tune::Method::random, tune::Method::local}) {
    INFO(name_of(method));
    FormulaMeasurer measurer(by_lanes);
    f.options.method = method;
    const auto found = f.search(measurer);
    INFO(found.status().message());
    REQUIRE(found);
    CHECK(found->complete);
    const tune::Record& record = found->record;
    CHECK(test::value_of(record.winner, "lanes") == 16);
    CHECK(record.time_us.median < record.fallback_us);
    CHECK(record.method == name_of(method));
    CHECK(record.measured > 0);
    CHECK(record.considered >= record.measured);
    CHECK(measurer.asked_in(tune::kFinals) > 1);
    // The default takes part in the finals.
    const std::pair<std::string, int> fallback{to_text(record.fallback), tune::kFinals};
    CHECK(std::count(measurer.asked.begin(), measurer.asked.end(), fallback) == 1);
  }
}

TEST_CASE("a fault costs its candidate alone, and the record counts it", "[tune][compile]") {
  Fixture f;
  f.options.method = tune::Method::exhaustive;
  FormulaMeasurer healthy(by_lanes);
  const auto best = f.search(healthy);
  REQUIRE(best);

  FormulaMeasurer measurer(by_lanes);
  measurer.faults[to_text(best->record.winner)] = tune::Outcome::crash;
  const auto found = f.search(measurer);
  REQUIRE(found);
  CHECK_FALSE(found->record.winner == best->record.winner);
  CHECK(found->record.rejected.at("crash") == 1);
  CHECK(found->complete);
}

TEST_CASE("where finalists prove wrong at size the next ones step in", "[tune][compile]") {
  Fixture f;
  f.options.finalists = 2;
  f.options.method = tune::Method::exhaustive;
  FormulaMeasurer measurer(by_lanes);
  // Right while they are sorted, wrong in the finals: the default and the two best.
  class Fickle : public tune::Measurer {
   public:
    explicit Fickle(FormulaMeasurer& inside) : inside_(inside) {}
    int finals = 0;
    Status measure(std::span<const tune::Candidate> candidates, const tune::Timing& timing,
                   const Done& done) override {
      finals += timing.rung == tune::kFinals ? 1 : 0;
      return inside_.measure(candidates, timing, [&](std::size_t i, tune::Measurement m) {
        if (finals == 1 && timing.rung == tune::kFinals) m.outcome = tune::Outcome::wrong;
        done(i, std::move(m));
      });
    }

   private:
    FormulaMeasurer& inside_;
  } fickle(measurer);
  const auto found = f.search(fickle);
  REQUIRE(found);
  CHECK(fickle.finals == 2);
  CHECK(found->record.decision == "the default could not be timed");
  CHECK(found->record.rejected.at("wrong") == 3);
  // The bug: what had proved wrong stood as its strategy's best by the rungs before.
  for (const tune::Measurement& best : found->record.by_strategy) {
    CHECK(best.rung == tune::kFinals);
  }
}

TEST_CASE("where nothing is right the search says so", "[tune][compile]") {
  Fixture f;
  f.options.scope.tuning = "threads=64 columns=2 stages=2";
  FormulaMeasurer measurer(by_lanes);
  FormulaMeasurer healthy(by_lanes);
  f.options.method = tune::Method::exhaustive;
  REQUIRE(f.search(healthy));
  for (const auto& each : healthy.asked) measurer.faults[each.first] = tune::Outcome::wrong;
  const auto found = f.search(measurer);
  REQUIRE_FALSE(found);
  CHECK_THAT(found.status().message(),
             test::contains("no candidate could be measured; the first, "));
  CHECK_THAT(found.status().message(), test::contains("wrong: as the test wants"));

  FormulaMeasurer broken(by_lanes);
  broken.failure = Status(Code::device_error, "the lights are out");
  CHECK(f.search(broken).status().message() == "the lights are out");
}

TEST_CASE("limits end a search early, and finals take place all the same", "[tune][compile]") {
  Fixture f;
  FormulaMeasurer measurer(by_lanes);
  f.options.max_evals = 5;
  auto found = f.search(measurer);
  REQUIRE(found);
  CHECK_FALSE(found->complete);
  CHECK(found->ended_by == "evaluation limit");
  CHECK(measurer.asked_in(0) == 5);
  CHECK(measurer.asked_in(tune::kFinals) >= 2);

  std::atomic<bool> stop{false};
  f.options.max_evals = 0;
  f.options.stop = &stop;
  FormulaMeasurer stopped(by_lanes);
  stopped.before = [&] { stop = true; };
  found = f.search(stopped);
  REQUIRE(found);
  CHECK(found->ended_by == "stop");
  CHECK(stopped.asked_in(tune::kFinals) >= 2);

  f.options.stop = nullptr;
  f.options.time_limit_seconds = 1e-9;
  FormulaMeasurer late(by_lanes);
  found = f.search(late);
  REQUIRE(found);
  CHECK(found->ended_by == "time limit");
  CHECK(found->record.winner == found->record.fallback);
}

TEST_CASE("a resumed search measures nothing twice but the finals", "[tune][compile]") {
  Fixture f;
  {
    auto journal = f.journal(false);
    REQUIRE(journal);
    f.options.journal = &*journal;
    f.options.max_evals = 4;
    FormulaMeasurer measurer(by_lanes);
    REQUIRE(f.search(measurer));
  }
  auto journal = f.journal(true);
  REQUIRE(journal);
  f.options.journal = &*journal;
  f.options.max_evals = 0;
  FormulaMeasurer measurer(by_lanes);
  const auto found = f.search(measurer);
  REQUIRE(found);
  CHECK(found->complete);
  std::set<std::string> before;
  for (const tune::Measurement& each : journal->earlier()) {
    if (each.rung == 0) before.insert(to_text(each.candidate));
  }
  CHECK(before.size() == 4);
  for (const auto& [name, rung] : measurer.asked) {
    if (rung == 0) CHECK_FALSE(before.contains(name));
  }
  CHECK(test::value_of(found->record.winner, "lanes") == 16);
  const auto contents = tune::read_journal(f.scratch / "j.jsonl");
  REQUIRE(contents);
  CHECK(contents->winner);
}

// What proved wrong has no time, and would rank before all that have one.
TEST_CASE("a resumed search passes by what proved wrong before", "[tune][compile]") {
  Fixture f;
  std::set<std::string> wrong;
  for (const bool resume : {false, true}) {
    auto journal = f.journal(resume);
    REQUIRE(journal);
    f.options.journal = &*journal;
    f.options.max_evals = resume ? 0 : 4;
    FormulaMeasurer measurer(by_lanes);
    if (!resume) {
      const auto listing = tune::list_candidates(f.problem, test::h200(), f.options.scope);
      REQUIRE(listing);
      for (const tune::Listed& each : listing->candidates) {
        if (!each.is_default) measurer.faults[to_text(each.candidate)] = tune::Outcome::wrong;
      }
    }
    const auto found = f.search(measurer);
    INFO(found.status().message());
    REQUIRE(found);
    for (const auto& [name, rung] : measurer.asked) {
      if (!resume && rung == 0 && measurer.faults.contains(name)) wrong.insert(name);
      if (resume) CHECK_FALSE(wrong.contains(name));
    }
    if (!resume) continue;
    CHECK(wrong.size() == 3);
    CHECK(found->record.rejected.at("wrong") == 3);
    CHECK_FALSE(wrong.contains(to_text(found->record.winner)));
  }
}

TEST_CASE("the scope bounds what is looked at", "[tune]") {
  const Problem problem = test::problem_in_words("T=8192 H=16 K=64 V=64");
  const auto all = tune::list_candidates(problem, test::h200(), {});
  REQUIRE(all);
  CHECK(all->candidates.front().is_default);
  CHECK(all->refused > 0);
  std::set<std::string> strategies;
  for (const tune::Listed& each : all->candidates) strategies.insert(each.candidate.strategy);
  CHECK(strategies.size() > 1);

  const auto fixed =
      tune::list_candidates(problem, test::h200(), {.strategies = {"chunk"}, .tuning = "chunk=32"});
  REQUIRE(fixed);
  for (const tune::Listed& each : fixed->candidates) {
    CHECK(each.candidate.strategy == "chunk");
    CHECK(test::value_of(each.candidate, "chunk") == 32);
  }
  CHECK(tune::list_candidates(problem, test::h200(), {.strategies = {"magic"}}).status().code() ==
        Code::invalid_argument);
  CHECK_FALSE(tune::list_candidates(problem, test::h200(), {.tuning = "speed=11"}));
}

TEST_CASE("occupancy follows registers, shared memory and threads", "[tune]") {
  const device::Device& device = test::h200();
  CHECK(tune::occupancy(32, 128, 0, device) == 1);
  CHECK(tune::occupancy(255, 128, 0, device) == 2 * 128 / 2048.0);
  CHECK(tune::occupancy(64, 256, 100 * 1024, device) == 2 * 256 / 2048.0);
  CHECK(tune::occupancy(64, 256, 300 * 1024, device) == 0);
  CHECK(tune::occupancy(128, 1024, 0, device) == 0);
  CHECK(tune::occupancy(300, 32, 0, device) == 0);
}
