#include "tune/winner.hpp"

#include <vector>

#include "support/catch.hpp"
#include "tune/records.hpp"

using namespace kda;

namespace {

const char* const kTunings[] = {
    "threads=128 lanes=8 columns=2 stages=2", "threads=64 lanes=16 columns=2 stages=2",
    "threads=64 lanes=8 columns=2 stages=2", "threads=32 lanes=8 columns=2 stages=2"};

tune::Measurement finalist(int which, double us, double noise = 0.001, int registers = 64) {
  tune::Measurement m;
  m.candidate = test::recurrent(kTunings[which]);
  m.rung = tune::kFinals;
  m.time_us = {.n = 25, .median = us, .iqr = us * noise, .min = us};
  m.needs.registers = registers;
  return m;
}

// The place of the winner; the default is number 0.
std::size_t winner_of(const std::vector<tune::Measurement>& finals) {
  const auto decision = tune::decide(finals, test::recurrent(kTunings[0]));
  REQUIRE(decision);
  return decision->winner;
}

}  // namespace

TEST_CASE("a gain of more than 1% beats the default, less does not", "[tune]") {
  CHECK(winner_of({finalist(0, 100), finalist(1, 98.9)}) == 1);
  CHECK(winner_of({finalist(0, 100), finalist(1, 99.1)}) == 0);
  CHECK(winner_of({finalist(0, 100), finalist(1, 101)}) == 0);
  CHECK(winner_of({finalist(1, 98.9), finalist(0, 100)}) == 0);  // a place, not a number
}

TEST_CASE("noise raises the bar", "[tune]") {
  CHECK(winner_of({finalist(0, 100, 0.05), finalist(1, 96)}) == 0);
  CHECK(winner_of({finalist(0, 100), finalist(1, 96, 0.05)}) == 0);
  CHECK(winner_of({finalist(0, 100, 0.05), finalist(1, 94)}) == 1);
}

TEST_CASE("of candidates within noise of each other the one that needs less wins", "[tune]") {
  CHECK(winner_of({finalist(0, 100), finalist(1, 90, 0.001, 128), finalist(2, 90.5)}) == 2);
  CHECK(winner_of({finalist(0, 100), finalist(1, 90, 0.001, 128), finalist(2, 92)}) == 1);
  // Fewer needs do not bring back one that does not beat the default itself.
  CHECK(winner_of({finalist(0, 100), finalist(1, 98.8, 0.001, 128), finalist(2, 99.5)}) == 1);
}

TEST_CASE("workspace counts before shared memory, that before registers", "[tune]") {
  tune::Needs a, b;
  a.registers = 255;
  b.shared_bytes = 1;
  CHECK(needs_less(a, b));
  a.workspace_bytes = 1;
  CHECK(needs_less(b, a));
}

TEST_CASE("who is not ok takes no part", "[tune]") {
  tune::Measurement wrong = finalist(1, 50);
  wrong.outcome = tune::Outcome::wrong;
  CHECK(winner_of({finalist(0, 100), wrong}) == 0);

  tune::Measurement fallback = finalist(0, 100);
  fallback.outcome = tune::Outcome::crash;
  const std::vector<tune::Measurement> finals = {fallback, finalist(1, 120)};
  const auto decision = tune::decide(finals, fallback.candidate);
  REQUIRE(decision);
  CHECK(decision->winner == 1);
  CHECK_FALSE(decision->gain);
  CHECK_FALSE(tune::decide(std::vector{wrong}, fallback.candidate));
  CHECK_FALSE(tune::decide({}, fallback.candidate));
}

TEST_CASE("the decision says why", "[tune]") {
  const auto words = [](const std::vector<tune::Measurement>& finals) {
    return tune::decide(finals, test::recurrent(kTunings[0]))->words;
  };
  CHECK(words({finalist(0, 100), finalist(1, 80)}) == "20.0% under the default");
  CHECK(words({finalist(0, 100), finalist(1, 130)}) == "the default is the fastest");
  CHECK_THAT(words({finalist(0, 100), finalist(1, 99.5)}),
             test::contains("the default stays: the fastest gains 0.5%, which is within 1.0%"));
  CHECK_THAT(words({finalist(0, 100), finalist(1, 90, 0.001, 128), finalist(2, 90.5)}),
             test::contains("is within noise and needs more"));
}
