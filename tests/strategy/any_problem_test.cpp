// Whatever a problem, its inputs and its tuning may be, drawn at random: what no list has thought
// of.  KDA_TEST_SEED (60) and KDA_TEST_ROUNDS (1), of eight problems each, look further:
//   KDA_TEST_SEED=7 KDA_TEST_ROUNDS=20 kda_test_strategy "any*, on the device"
#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "problem/problem.hpp"
#include "support/any_trial.hpp"
#include "support/new_kernels.hpp"
#include "support/scratch.hpp"
#include "support/trials.hpp"

using namespace kda;
using namespace kda::test;

namespace {

constexpr int kProblems = 8, kTunings = 12;  // a round

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

// A round's problems and what is to run them.
template <class Trial>
struct Round {
  std::vector<Trial> trials;
  std::vector<Variant> variants = every_strategy();

  template <class Draw>
  Round(std::uint64_t seed, std::uint64_t stream, const Draw& draw) {
    Dice dice(seed, stream);
    variants.push_back({});  // the planner's choice
    for (int i = 0; i < kProblems; ++i) trials.push_back(draw(dice));
    for (int i = 0; i < kTunings; ++i) variants.push_back(any_tuning(dice));
    std::stable_sort(variants.begin(), variants.end(),
                     [](const Variant& a, const Variant& b) { return a.strategy < b.strategy; });
  }
};

Round<Trial> round_of_trials(std::uint64_t seed) { return {seed, 0, any_trial}; }
Round<PoolTrial> round_of_pools(std::uint64_t seed) { return {seed, 1, any_pool_trial}; }

template <class Check>
void each_round(const Check& check) {
  const std::uint64_t first = number("KDA_TEST_SEED", 60);
  for (std::uint64_t i = 0; i < number("KDA_TEST_ROUNDS", 1); ++i) check(first + i);
}

std::string title(const char* of, std::uint64_t seed) {
  return std::string(of) + ", seed " + std::to_string(seed);
}

template <class RoundOf, class Run>
void check_rounds(const char* of, const RoundOf& round_of, const Run& run) {
  if (!on_device()) return;
  each_round([&](std::uint64_t seed) {
    const auto round = round_of(seed);
    const Tally tally = run(title(of, seed).c_str(), round.trials, round.variants);
    CHECK(tally.failed == 0);
    CHECK(tally.passed >= kProblems);
  });
}

}  // namespace

TEST_CASE("any problem by any tuning, on the device", "[gpu]") {
  check_rounds("any problem", round_of_trials,
               [](const auto&... round) { return sweep(round...); });
}

TEST_CASE("any pool by any tuning, on the device", "[gpu]") {
  check_rounds("any pool", round_of_pools,
               [](const auto&... round) { return sweep_pools(round...); });
}

TEST_CASE("any problem and any pool compose by any tuning") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto trials = round_of_trials(seed);
    const auto pools = round_of_pools(seed);
    for (const auto& [list, variants] :
         {std::pair{trials.trials, trials.variants}, {plain(pools.trials), pools.variants}}) {
      const Tally tally = compose_only(title("any", seed).c_str(), list, "sm_90a", variants);
      CHECK(tally.failed == 0);
      CHECK(tally.passed >= 2 * kProblems);  // recurrent and the planner's choice
    }
  }
}

TEST_CASE("any problem's defaults compile and do not spill", "[.][any]") {
  const Scratch cache;
  NewKernels kernels(cache.path());
  each_round([&](std::uint64_t seed) {
    std::vector<Trial> trials = round_of_trials(seed).trials;
    for (const PoolTrial& each : round_of_pools(seed).trials) trials.push_back(each.trial);
    std::vector<Wanted> wanted;
    for (const Trial& each : trials) {
      const Problem problem = complete(each).problem;
      for (const char* target : {"sm_89", "sm_90a"})
        for (const Variant& variant : every_strategy())
          wanted.push_back({problem, target, variant.strategy, ""});
    }
    const std::vector<NewOnes> made = kernels.make(wanted);
    for (std::size_t i = 0; i < made.size(); ++i) {
      INFO("seed " << seed << ", " << wanted[i].strategy << " for " << wanted[i].target << ": "
                   << problem::to_text(wanted[i].problem));
      INFO(made[i].tuning << ": " << made[i].status.message());
      CHECK((made[i].status || made[i].status.code() == Code::unsupported));
      for (const program::Kernel& kernel : made[i].kernels) {
        INFO(kernel.path << ", stage " << kernel.stage.name);
        CHECK(kernel.resources.spill_bytes == 0);
        CHECK(kernel.resources.serialized_wgmma == 0);
      }
    }
  });
}
