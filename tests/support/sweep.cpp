#include "support/sweep.hpp"

#include <chrono>
#include <cstdio>
#include <stdexcept>

#include "reference/parallel.hpp"
#include "strategy/table.hpp"
#include "support/rig.hpp"

namespace kda::test {
namespace {

constexpr int kMostReports = 40;  // failures printed a sweep
constexpr double kNearly = 0.9;   // of the allowed error: worth naming the trial

double seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// One variant over the trials: its plans and what became of them.
struct Lane {
  Variant variant;
  std::vector<Result<Plan>> plans;
  Tally tally;
  double worst = 0;
  std::string worst_trial;
};

void add(Tally& to, const Tally& more) {
  to.passed += more.passed;
  to.failed += more.failed;
  to.refused += more.refused;
}

class Sweep {
 public:
  Sweep(const char* title, const std::vector<Trial>& trials) : title_(title) {
    for (const Trial& trial : trials) trials_.push_back(complete(trial));
  }

  Tally run(const std::vector<Variant>& variants) {
    const double start = seconds();
    std::vector<Problem> problems;
    for (const Trial& trial : trials_) problems.push_back(trial.problem);
    std::vector<Lane> lanes(variants.size());
    reference::parallel_for(static_cast<std::int64_t>(lanes.size()), [&](std::int64_t i) {
      Options options;
      options.strategy = variants[i].strategy;
      options.tuning = variants[i].tuning;
      lanes[i].variant = variants[i];
      lanes[i].plans = Plan::make_all(problems, options);
    });
    const double made = seconds();
    for (std::size_t i = 0; i < trials_.size(); ++i) try_one(i, lanes);
    return summarise(lanes, made - start, seconds() - made);
  }

 private:
  void try_one(std::size_t i, std::vector<Lane>& lanes) {
    const Trial& trial = trials_[i];
    Truth truth(trial);
    Rig rig(gpu_, trial, truth.tensors());
    for (Lane& lane : lanes) {
      const Result<Plan>& plan = lane.plans[i];
      if (!plan && plan.status().code() == Code::unsupported &&
          !serves(lane.variant, trial.problem)) {
        ++lane.tally.refused;
        continue;
      }
      std::string failure = plan ? rig.run(*plan) : plan.status().message();
      if (plan && failure.empty() && trial.cu_seqlens.empty()) {
        failure = truth.judge(rig.outputs());
        if (truth.last_ratio() > lane.worst) {
          lane.worst = truth.last_ratio();
          lane.worst_trial = to_text(trial);
        }
      }
      ++(failure.empty() ? lane.tally.passed : lane.tally.failed);
      if (!failure.empty()) report(lane, trial, failure);
      if (!gpu_.usable())
        throw std::runtime_error(std::string(title_) + ": the device was lost at this trial: " +
                                 to_text(lane.variant) + " | " + to_text(trial));
    }
  }

  void report(const Lane& lane, const Trial& trial, const std::string& failure) {
    if (++reports_ > kMostReports) return;
    std::printf("FAILED %s | %s | %s\n    %s\n", title_, to_text(lane.variant).c_str(),
                to_text(trial).c_str(), failure.c_str());
    std::fflush(stdout);
  }

  // A line a strategy, its tunings together.
  Tally summarise(const std::vector<Lane>& lanes, double made, double ran) const {
    Tally all;
    for (auto lane = lanes.begin(); lane != lanes.end();) {
      const Lane* worst = &*lane;
      Tally tally;
      const auto first = lane;
      for (; lane != lanes.end() && lane->variant.strategy == first->variant.strategy; ++lane) {
        add(tally, lane->tally);
        if (lane->worst > worst->worst) worst = &*lane;
      }
      add(all, tally);
      const auto tunings = lane - first;
      std::printf("%s | %s%s: %d passed, %d failed, %d refused; worst %.2f", title_,
                  to_text({first->variant.strategy, ""}).c_str(),
                  tunings > 1 ? (" x " + std::to_string(tunings)).c_str() : "", tally.passed,
                  tally.failed, tally.refused, worst->worst);
      if (lane == lanes.end()) std::printf("; plans %.1f s, runs %.1f s", made, ran);
      std::printf("\n");
      if (worst->worst > kNearly)
        std::printf("    worst %.2f of what is allowed: %s | %s\n", worst->worst,
                    to_text(worst->variant).c_str(), worst->worst_trial.c_str());
    }
    if (reports_ > kMostReports) std::printf("    ... %d failures in all\n", reports_);
    std::fflush(stdout);
    return all;
  }

  const char* title_;
  Gpu gpu_;
  std::vector<Trial> trials_;
  int reports_ = 0;
};

}  // namespace

std::string to_text(const Variant& variant) {
  if (variant.strategy.empty()) return "planner's choice";
  return variant.strategy + (variant.tuning.empty() ? "" : " ") + variant.tuning;
}

bool serves(const Variant& variant, const Problem& problem) {
  if (!variant.tuning.empty()) return false;
  if (variant.strategy == "chunk") {
    return !problem.draft_states && !problem.committed_tokens &&
           problem.checkpoint_tokens % 16 == 0;
  }
  return variant.strategy.empty() || variant.strategy == "recurrent";
}

std::vector<Variant> every_strategy() {
  std::vector<Variant> out;
  for (const strategy::Strategy* row : strategy::table()) out.push_back({row->name, ""});
  return out;
}

Tally sweep(const char* title, const std::vector<Trial>& trials,
            const std::vector<Variant>& variants) {
  return Sweep(title, trials).run(variants);
}

Tally compose_only(const char* title, const std::vector<Trial>& trials, const char* target,
                   const std::vector<Variant>& variants) {
  Tally tally;
  for (const Trial& given : trials) {
    const Trial trial = complete(given);
    for (const Variant& variant : variants) {
      Options options;
      options.target = target;
      options.strategy = variant.strategy;
      options.tuning = variant.tuning;
      const Status status = supports(trial.problem, options);
      if (status) {
        ++tally.passed;
      } else if (status.code() == Code::unsupported) {
        ++tally.refused;
      } else if (++tally.failed <= kMostReports) {
        std::printf("FAILED %s | %s | %s\n    %s\n", title, to_text(variant).c_str(),
                    to_text(trial).c_str(), status.message().c_str());
      }
    }
  }
  return tally;
}

}  // namespace kda::test
