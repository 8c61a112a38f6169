#include "tune/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "strategy/table.hpp"
#include "tune/evaluator.hpp"
#include "tune/shortlist.hpp"
#include "tune/winner.hpp"

namespace kda::tune {

namespace {

constexpr const char* kMethods[] = {"halving", "exhaustive", "random", "local"};

constexpr std::size_t kShortlist = 144;  // of halving
// After the first rung one in so many goes on, but never fewer than thrice the finalists; of an
// exhaustive search also all this close to the best.
constexpr std::size_t kGoesOn = 8;
constexpr double kClose = 1.25;
constexpr std::size_t kClimbers = 3;  // steps are taken from the best of so many strategies ...
constexpr double kFarBehind = 1.3;    // ... that are no further than this from the best
constexpr int kByLot = 64;            // of random, where max_evals sets none
constexpr double kBetter = 0.01;      // a step of local must gain this

// Rungs: single calls to sort the crowd, graphs for those that go on, the finals in turn.
constexpr Timing kFirst{.rung = 0, .repeats = 3};
constexpr Timing kSecond{.rung = 1, .repeats = 7, .window_us = 1000};
constexpr Timing kLast{
    .rung = kFinals, .repeats = 25, .window_us = 2000, .interleaved = true, .at_size = true};

Crowd listed_of(const std::vector<Timed>& timed, std::size_t most) {
  Crowd crowd;
  for (const Timed& each : timed) {
    if (crowd.size() == most) break;
    crowd.push_back(each.listed);
  }
  return crowd;
}

void add_default(Crowd& crowd, const Listed& fallback) {
  if (std::find(crowd.begin(), crowd.end(), &fallback) == crowd.end()) crowd.push_back(&fallback);
}

Crowd listed_in(const Listing& listing) {
  Crowd all;
  for (const Listed& each : listing.candidates) all.push_back(&each);
  return all;
}

void by_time(std::vector<Timed>& all) {
  std::stable_sort(all.begin(), all.end(), [](const Timed& a, const Timed& b) {
    return a.measurement.time_us.median < b.measurement.time_us.median;
  });
}

// From each of the starts, a step at a time, to where no neighbour is better.  `tried` are not
// measured again.
Result<std::vector<Timed>> climb(const Crowd& all, std::vector<Timed> starts,
                                 std::set<const Listed*> tried, Evaluator& evaluator) {
  std::vector<Timed> every;
  for (Timed& at : starts) {
    while (!evaluator.over()) {
      Crowd around;
      for (const Listed* each : all) {
        if (!neighbours(each->candidate, at.listed->candidate)) continue;
        if (tried.insert(each).second) around.push_back(each);
      }
      Result<std::vector<Timed>> found = evaluator.evaluate(around, kSecond);
      if (!found) return found;
      every.insert(every.end(), found->begin(), found->end());
      if (found->empty() || found->front().measurement.time_us.median >
                                (1 - kBetter) * at.measurement.time_us.median) {
        break;
      }
      at = found->front();
    }
  }
  return every;
}

// The best of each strategy, while it is not far behind the best of all.
std::vector<Timed> climbers_of(const std::vector<Timed>& ranked, double far_behind) {
  std::vector<Timed> climbers;
  std::set<std::string> seen;
  for (const Timed& each : ranked) {
    const double best = ranked.front().measurement.time_us.median;
    if (each.measurement.time_us.median > far_behind * best) continue;
    if (climbers.size() == kClimbers) break;
    if (seen.insert(each.listed->candidate.strategy).second) climbers.push_back(each);
  }
  return climbers;
}

// Single calls of the crowd, graphs of the better part of it.
Result<std::vector<Timed>> two_rungs(const Crowd& crowd, const Listed& fallback, double close,
                                     Evaluator& evaluator, int finalists) {
  Result<std::vector<Timed>> first = evaluator.evaluate(crowd, kFirst);
  if (!first || evaluator.over()) return first;
  std::size_t most = std::max(first->size() / kGoesOn, 3 * static_cast<std::size_t>(finalists));
  while (most < first->size() && (*first)[most].measurement.time_us.median <
                                     close * first->front().measurement.time_us.median) {
    ++most;
  }
  Crowd better = listed_of(*first, most);
  // The best of each strategy goes on, for whoever forces that strategy.
  std::set<std::string> seen;
  for (const Timed& each : *first) {
    if (seen.insert(each.listed->candidate.strategy).second) add_default(better, *each.listed);
  }
  add_default(better, fallback);
  Result<std::vector<Timed>> second = evaluator.evaluate(better, kSecond);
  // Ended early: what the first rung found ranks behind.
  if (second) second->insert(second->end(), first->begin(), first->end());
  return second;
}

Result<std::vector<Timed>> halving(const Crowd& all, Evaluator& evaluator, int finalists) {
  const Crowd crowd = shortlist(all, kShortlist);
  Result<std::vector<Timed>> ranked = two_rungs(crowd, *all.front(), 1, evaluator, finalists);
  if (!ranked || ranked->empty() || evaluator.over()) return ranked;
  const Result<std::vector<Timed>> found =
      climb(all, climbers_of(*ranked, kFarBehind), {crowd.begin(), crowd.end()}, evaluator);
  if (!found) return found.status();
  // Graphs before single calls, whose times are no measure for them.
  const auto calls = std::find_if(ranked->begin(), ranked->end(), [](const Timed& each) {
    return each.measurement.rung == kFirst.rung;
  });
  std::vector<Timed> graphs(ranked->begin(), calls);
  graphs.insert(graphs.end(), found->begin(), found->end());
  by_time(graphs);
  graphs.insert(graphs.end(), calls, ranked->end());
  return graphs;
}

Crowd drawn(Crowd all, const SearchOptions& options) {
  std::mt19937_64 random(options.seed);
  for (std::size_t i = all.size() - 1; i > 1; --i) {  // the default stays first
    std::swap(all[i], all[1 + random() % i]);
  }
  const int most = options.max_evals > 0 ? options.max_evals : kByLot;
  all.resize(std::min(all.size(), static_cast<std::size_t>(most)));
  return all;
}

// From the likeliest of each strategy.
Result<std::vector<Timed>> local(const Crowd& all, Evaluator& evaluator) {
  std::map<std::string, const Listed*> starts;
  for (const Listed* each : all) starts.try_emplace(each->candidate.strategy, each);
  Crowd begin;
  for (const auto& [name, start] : starts) begin.push_back(start);
  Result<std::vector<Timed>> every = evaluator.evaluate(begin, kSecond);
  if (!every || every->empty()) return every;
  // A strategy that starts far behind does not catch up by its tuning.
  const Result<std::vector<Timed>> found =
      climb(all, climbers_of(*every, 3), {begin.begin(), begin.end()}, evaluator);
  if (!found) return found.status();
  every->insert(every->end(), found->begin(), found->end());
  by_time(*every);
  return every;
}

// The finals of the best; while none of them proves right at size, of the next.
Result<std::vector<Timed>> finals(const std::vector<Timed>& ranked, const Listed& fallback,
                                  Evaluator& evaluator, int finalists) {
  std::vector<Timed> right;
  std::vector<const Listed*> seen;
  const auto fresh = [&](const Listed* each) {
    return std::find(seen.begin(), seen.end(), each) == seen.end();
  };
  while (right.empty()) {
    Crowd crowd;
    for (const Timed& each : ranked) {
      if (crowd.size() == static_cast<std::size_t>(finalists)) break;
      if (!fresh(each.listed)) continue;
      crowd.push_back(each.listed);
      seen.push_back(each.listed);
    }
    if (fresh(&fallback)) {
      crowd.push_back(&fallback);
      seen.push_back(&fallback);
    }
    if (crowd.empty()) break;
    Result<std::vector<Timed>> timed = evaluator.evaluate(crowd, kLast);
    if (!timed) return timed;
    right = *std::move(timed);
  }
  return right;
}

Result<std::vector<Timed>> preliminaries(const Crowd& all, Evaluator& evaluator,
                                         const SearchOptions& options) {
  switch (options.method) {
    case Method::halving:
      return halving(all, evaluator, options.finalists);
    case Method::exhaustive:
      return two_rungs(all, *all.front(), kClose, evaluator, options.finalists);
    case Method::random:
      return evaluator.evaluate(drawn(all, options), kSecond);
    case Method::local:
      return local(all, evaluator);
  }
  return Status(Code::invalid_argument, "method: no such enumerator");
}

// The best measurement of each strategy: finals count more than rungs, and what proved wrong in one
// of them counts in none.
std::vector<Measurement> by_strategy(const std::vector<Measurement>& measurements) {
  std::set<std::string> faulty;
  for (const Measurement& each : measurements) {
    if (each.outcome != Outcome::ok) faulty.insert(to_text(each.candidate));
  }
  std::map<std::string, const Measurement*> best;
  for (const Measurement& each : measurements) {
    if (each.time_us.n == 0 || faulty.contains(to_text(each.candidate))) continue;
    const Measurement*& standing = best[each.candidate.strategy];
    if (standing == nullptr || each.rung > standing->rung ||
        (each.rung == standing->rung && each.time_us.median < standing->time_us.median)) {
      standing = &each;
    }
  }
  std::vector<Measurement> all;
  for (const auto& [name, each] : best) all.push_back(*each);
  return all;
}

Status nothing_right(const std::vector<Measurement>& measurements) {
  std::string text = "no candidate could be measured";
  for (const Measurement& each : measurements) {
    if (each.outcome == Outcome::ok) continue;
    return {Code::device_error,
            fmt::format("{}; the first, {}: {}: {}", text, to_text(each.candidate),
                        name_of(each.outcome), each.why)};
  }
  return {Code::device_error, text};
}

}  // namespace

const char* name_of(Method method) noexcept {
  const auto at = static_cast<std::size_t>(method);
  return at < std::size(kMethods) ? kMethods[at] : "unknown";
}

Result<Method> parse_method(std::string_view word) {
  const auto* found = std::find(std::begin(kMethods), std::end(kMethods), word);
  if (found != std::end(kMethods)) return static_cast<Method>(found - std::begin(kMethods));
  return Status(Code::invalid_argument,
                fmt::format("method '{}'; there are halving, exhaustive, random, local", word));
}

Result<std::vector<Listed>> first_looks(const Problem& problem, const device::Device& device,
                                        const SearchOptions& options) {
  Result<Listing> listing = list_candidates(problem, device, options.scope);
  if (!listing) return listing.status();
  Crowd all = listed_in(*listing);
  if (options.method == Method::halving) all = shortlist(all, kShortlist);
  if (options.method == Method::random) all = drawn(std::move(all), options);
  if (options.method == Method::local) all.resize(1);  // where it goes is not known
  std::vector<Listed> looks;
  for (const Listed* each : all) looks.push_back(*each);
  return looks;
}

Result<SearchResult> search(const Problem& problem, const std::vector<std::int64_t>& lengths,
                            const device::Device& device, cache::Cache& cache, Measurer& measurer,
                            const SearchOptions& options) {
  Result<Environment> environment = environment_of(device);
  if (!environment) return environment.status();
  const Result<Listing> listing = list_candidates(problem, device, options.scope);
  if (!listing) return listing.status();
  const Crowd all = listed_in(*listing);
  const Listed& fallback = *all.front();

  Evaluator evaluator(device, cache, measurer, options);
  const Result<std::vector<Timed>> ranked = preliminaries(all, evaluator, options);
  if (!ranked) return ranked.status();
  const Result<std::vector<Timed>> last = finals(*ranked, fallback, evaluator, options.finalists);
  if (!last) return last.status();
  std::vector<Measurement> finalists;
  for (const Timed& each : *last) finalists.push_back(each.measurement);
  const std::optional<Decision> decision = decide(finalists, fallback.candidate);
  if (!decision) return nothing_right(evaluator.measurements());

  SearchResult result;
  result.measurements = evaluator.measurements();
  result.ended_by = evaluator.ended_by();
  result.complete = result.ended_by.empty();

  Record& record = result.record;
  const Measurement& winner = finalists[decision->winner];
  record.environment = *std::move(environment);
  record.problem = problem;
  record.lengths = lengths;
  record.winner = winner.candidate;
  record.time_us = winner.time_us;
  record.needs = winner.needs;
  record.fallback = fallback.candidate;
  for (const Measurement& each : finalists) {
    if (each.candidate == fallback.candidate) record.fallback_us = each.time_us.median;
  }
  record.decision = decision->words;
  record.by_strategy = by_strategy(result.measurements);
  record.method = name_of(options.method);
  record.considered = static_cast<int>(all.size()) + listing->refused;
  std::set<std::string> measured;
  for (const Measurement& each : result.measurements) {
    if (each.time_us.n > 0) measured.insert(to_text(each.candidate));
  }
  record.measured = static_cast<int>(measured.size());
  if (listing->refused > 0) record.rejected["constraints"] = listing->refused;
  std::set<std::string> rejected;
  for (const Measurement& each : result.measurements) {
    if (each.outcome != Outcome::ok && rejected.insert(to_text(each.candidate)).second) {
      ++record.rejected[name_of(each.outcome)];
    }
  }
  record.seconds = evaluator.seconds();
  if (options.journal != nullptr) options.journal->finish(record);
  return result;
}

}  // namespace kda::tune
