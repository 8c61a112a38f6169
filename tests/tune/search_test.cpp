#include "tune/search.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "support/catch.hpp"
#include "support/scratch.hpp"
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
    options.scope.tuning = "threads=64";
  }

  Result<tune::SearchResult> search(tune::Measurer& measurer) {
    return tune::search(problem, lengths, test::h200(), cache, measurer, options);
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
