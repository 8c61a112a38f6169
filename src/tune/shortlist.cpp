#include "tune/shortlist.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>

#include "base/digest.hpp"
#include "strategy/table.hpp"

namespace kda::tune {
namespace {

constexpr double kRuledOut = 6;  // times the best expected: no larger share for that strategy
// Of a strategy that is ruled out so many are looked at all the same: its model may be wrong.
constexpr std::size_t kLookedAt = 12;
constexpr double kAlike = 0.03;  // expected times this close, relatively, say nothing

struct Drawn {
  const Listed* listed;
  std::tuple<int, std::string> place;  // the smaller, the sooner it is looked at
};

// A strategy's candidates in the order in which they are looked at.
Crowd in_order(const Crowd& all, double best) {
  std::vector<Drawn> drawn;
  for (const Listed* each : all) {
    const auto step =
        static_cast<int>(std::lround(std::log(each->expected_us / best) / std::log1p(kAlike)));
    drawn.push_back({each, {step, base::digest(to_text(each->candidate))}});
  }
  std::sort(drawn.begin(), drawn.end(),
            [](const Drawn& a, const Drawn& b) { return a.place < b.place; });
  Crowd ordered;
  for (const Drawn& each : drawn) ordered.push_back(each.listed);
  return ordered;
}

}  // namespace

Crowd shortlist(const Crowd& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::map<std::string, Crowd> by_strategy;
  double best = all.front()->expected_us;
  for (const Listed* each : all) {
    by_strategy[each->candidate.strategy].push_back(each);
    best = std::min(best, each->expected_us);
  }
  Crowd crowd{all.front()};
  // In turns, so that what one strategy does not use is the others'.
  for (auto& [name, theirs] : by_strategy) theirs = in_order(theirs, best);
  for (std::size_t turn = 0; crowd.size() < most; ++turn) {
    bool any = false;
    for (const auto& [name, theirs] : by_strategy) {
      if (turn >= theirs.size() || crowd.size() >= most) continue;
      if (turn >= kLookedAt && theirs[turn]->expected_us > kRuledOut * best) continue;
      any = true;
      if (theirs[turn] != all.front()) crowd.push_back(theirs[turn]);
    }
    if (!any) break;
  }
  return crowd;
}

bool neighbours(const Candidate& a, const Candidate& b) {
  if (a.strategy != b.strategy) return false;
  const tunable::Space space = strategy::find(a.strategy)->space();
  std::ptrdiff_t steps = 0;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const std::vector<int>& values = space[i].values;
    const auto place = [&](int value) {
      return std::find(values.begin(), values.end(), value) - values.begin();
    };
    steps += std::abs(place(a.tuning[i].second) - place(b.tuning[i].second));
  }
  return steps == 1;
}

}  // namespace kda::tune
