#include "tune/evaluator.hpp"

#include <algorithm>
#include <utility>

#include "tune/build.hpp"

namespace kda::tune {

namespace {

// Of the time limit, what the finals get: a share, but no more seconds than that.
constexpr double kFinalsShare = 0.25;
constexpr double kFinalsSeconds = 8;
// A batch: the best so far, the clock and `stop` are looked at between two.
constexpr std::size_t kBatch = 16;
// In the first rung a call that takes this many times the best is not repeated.
constexpr double kGiveUp = 2.5;

}  // namespace

Evaluator::Evaluator(const device::Device& device, cache::Cache& cache, Measurer& measurer,
                     const SearchOptions& options)
    : device_(device), cache_(cache), measurer_(measurer), options_(options) {
  if (options.journal == nullptr) return;
  for (const Measurement& each : options.journal->earlier()) {
    earlier_[{to_text(each.candidate), each.rung}] = &each;
  }
}

double Evaluator::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

double Evaluator::before_finals() const {
  const double limit = options_.time_limit_seconds;
  return limit - std::min(kFinalsShare * limit, kFinalsSeconds);
}

bool Evaluator::over() {
  if (!ended_by_.empty()) return true;
  const double limit = options_.time_limit_seconds;
  if (options_.stop != nullptr && *options_.stop) {
    ended_by_ = "stop";
  } else if (limit > 0 && seconds() > before_finals()) {
    ended_by_ = "time limit";
  } else if (options_.max_evals > 0 && evaluations_ >= options_.max_evals) {
    ended_by_ = "evaluation limit";
  }
  return !ended_by_.empty();
}

void Evaluator::report(const char* phase, std::size_t done, std::size_t total) {
  if (options_.on_progress) {
    options_.on_progress({phase, done, total, seconds(), best_us_, best_});
  }
}

void Evaluator::keep(const Listed& listed, Measurement m, bool journaled) {
  m.expected_us = listed.expected_us;
  if (m.outcome == Outcome::ok && m.time_us.n > 0 &&
      (best_us_ == 0 || m.time_us.median < best_us_)) {
    best_us_ = m.time_us.median;
    best_ = to_text(m.candidate);
  }
  if (!journaled) {
    m.at_seconds = seconds();
    if (options_.journal != nullptr) options_.journal->append(m);
  }
  measurements_.push_back(std::move(m));
}

// Those that may be timed.
std::vector<const Listed*> Evaluator::build(std::span<const Listed* const> candidates,
                                            const Timing& timing) {
  std::vector<const Listed*> missing;
  for (const Listed* each : candidates) {
    if (!built_.contains(each)) missing.push_back(each);
  }
  const unsigned threads =
      options_.compile_threads > 0 ? options_.compile_threads : program::default_threads();
  // Wide enough that the last kernel of a batch keeps few cores waiting.
  const std::size_t each_thread = options_.time_limit_seconds > 0 ? 2 : 8;
  const std::size_t batch = std::max<std::size_t>(each_thread * threads, kBatch);
  for (std::size_t first = 0; first < missing.size(); first += batch) {
    if (first > 0 && timing.rung != kFinals && over()) break;
    report("compile", first, missing.size());
    const std::span part =
        std::span(missing).subspan(first, std::min(batch, missing.size() - first));
    std::vector<Measurement> results = tune::build(part, device_, cache_, threads);
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (results[i].outcome != Outcome::ok) {
        results[i].rung = timing.rung;
        const bool known = earlier_.contains({to_text(part[i]->candidate), timing.rung});
        keep(*part[i], results[i], known);
      }
      built_.emplace(part[i], std::move(results[i]));
    }
  }
  std::vector<const Listed*> able;
  for (const Listed* each : candidates) {
    const auto found = built_.find(each);
    if (found != built_.end() && found->second.outcome == Outcome::ok) able.push_back(each);
  }
  return able;
}

Result<std::vector<Timed>> Evaluator::evaluate(std::span<const Listed* const> candidates,
                                               Timing timing) {
  const bool finals = timing.rung == kFinals;
  const std::vector<const Listed*> able = build(candidates, timing);
  std::vector<Timed> right;
  std::vector<const Listed*> open;
  for (const Listed* each : able) {
    const auto known = earlier_.find({to_text(each->candidate), timing.rung});
    if (finals || known == earlier_.end()) {
      open.push_back(each);
      continue;
    }
    Measurement m = *known->second;
    m.needs = built_.at(each).needs;
    keep(*each, m, true);
    if (m.outcome == Outcome::ok) right.push_back({each, std::move(m)});
  }

  const std::size_t known = able.size() - open.size();
  const std::size_t batch =
      finals ? open.size() : kBatch * static_cast<std::size_t>(measurer_.width());
  for (std::size_t first = 0; first < open.size(); first += batch) {
    if (!finals && over()) break;
    std::size_t size = std::min(batch, open.size() - first);
    if (!finals && options_.max_evals > 0) {
      size = std::min(size, static_cast<std::size_t>(options_.max_evals - evaluations_));
    }
    const std::span part = std::span(open).subspan(first, size);
    std::vector<Candidate> names;
    for (const Listed* each : part) names.push_back(each->candidate);
    if (timing.rung == 0) timing.give_up_us = kGiveUp * best_us_;
    if (!finals && options_.time_limit_seconds > 0) {
      timing.until = start_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                  std::chrono::duration<double>(before_finals()));
    }
    std::size_t done = known + first;
    const char* phase = finals ? "finals" : "time";
    report(phase, done, able.size());
    const Status status = measurer_.measure(names, timing, [&](std::size_t index, Measurement m) {
      const Listed& listed = *part[index];
      m.rung = timing.rung;
      m.needs = built_.at(&listed).needs;
      keep(listed, m, false);
      if (!finals) ++evaluations_;
      if (m.outcome == Outcome::ok && m.time_us.n > 0) {
        right.push_back({&listed, std::move(m)});
      }
      report(phase, ++done, able.size());
    });
    if (!status) return status;
  }
  std::stable_sort(right.begin(), right.end(), [](const Timed& a, const Timed& b) {
    return a.measurement.time_us.median < b.measurement.time_us.median;
  });
  return right;
}

}  // namespace kda::tune
