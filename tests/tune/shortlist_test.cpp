#include "tune/shortlist.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "support/catch.hpp"
#include "tune/crowd.hpp"

using namespace kda;

namespace {

tune::Listing listing_of(const char* words) {
  auto listing = tune::list_candidates(test::problem_in_words(words), test::h200(), {});
  REQUIRE(listing);
  return *std::move(listing);
}

tune::Crowd all_of(const tune::Listing& listing) {
  tune::Crowd all;
  for (const tune::Listed& each : listing.candidates) all.push_back(&each);
  return all;
}

std::set<std::string> names_of(const tune::Crowd& crowd) {
  std::set<std::string> names;
  for (const tune::Listed* each : crowd) names.insert(to_text(each->candidate));
  return names;
}

}  // namespace

TEST_CASE("a shortlist has the default, some of every strategy, nobody twice", "[tune]") {
  const tune::Listing listing = listing_of("T=8192 H=64 h0=1 ht=1");
  const tune::Crowd all = all_of(listing), crowd = tune::shortlist(all, 100);
  REQUIRE(all.size() > 200);
  CHECK(crowd.size() == 100);
  CHECK(crowd.front() == all.front());
  CHECK(names_of(crowd).size() == crowd.size());
  std::map<std::string, int> strategies, every;
  for (const tune::Listed* each : all) ++every[each->candidate.strategy];
  for (const tune::Listed* each : crowd) ++strategies[each->candidate.strategy];
  CHECK(strategies.size() == every.size());
  for (const auto& [name, count] : strategies) CHECK(count >= std::min(12, every[name]));
  CHECK(tune::shortlist(all, all.size()).size() == all.size());
}

TEST_CASE("problems of one shape draw the same candidates, so that they share kernels", "[tune]") {
  const tune::Listing one = listing_of("T=8192 H=64 h0=1 ht=1"),
                      other = listing_of("T=8192 H=56 h0=1 ht=1");
  const auto ours = names_of(tune::shortlist(all_of(one), 100));
  int shared = 0;
  for (const std::string& each : names_of(tune::shortlist(all_of(other), 100))) {
    shared += ours.contains(each) ? 1 : 0;
  }
  CHECK(shared > 70);
}

TEST_CASE("neighbours differ by one place of one tunable", "[tune]") {
  const auto candidate = [](const char* tuning) {
    return *tune::parse_candidate("recurrent", tuning);
  };
  const tune::Candidate at = candidate("threads=64 lanes=8 columns=2 stages=2");
  CHECK(tune::neighbours(at, candidate("threads=64 lanes=8 columns=2 stages=1")));
  CHECK(tune::neighbours(at, candidate("threads=64 lanes=16 columns=2 stages=2")));
  CHECK_FALSE(tune::neighbours(at, at));
  CHECK_FALSE(tune::neighbours(at, candidate("threads=64 lanes=16 columns=2 stages=1")));
  CHECK_FALSE(tune::neighbours(at, candidate("threads=64 lanes=32 columns=2 stages=2")));
}
