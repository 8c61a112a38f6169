#include "tune/device_measurer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "measure/failure.hpp"
#include "measure/gpu_time.hpp"
#include "tune/loaded.hpp"
#include "tune/small_problem.hpp"

namespace kda::tune {

namespace {

using measure::must;

constexpr unsigned char kWorkspacePoison =
    0xff;                           // a candidate may not count on its workspace's contents
constexpr double kLongCall = 20e3;  // microseconds; a longer call is not repeated for a rung
constexpr double kFirstCall = 200;  // what a first call may take beside its kernels

Outcome outcome_of(const Status& status) {
  if (status.code() == Code::compile_failed) return Outcome::compile;
  return status.code() == Code::unsupported ? Outcome::occupancy : Outcome::crash;
}

}  // namespace

struct DeviceMeasurer::Impl {
  const measure::Gpu& gpu;
  const Problem& problem;
  cache::Cache& cache;
  Inputs& inputs;
  measure::Buffer workspace;  // grows to what the candidates need
  std::set<std::string> right_small, right_at_size;

  void make_room(std::size_t bytes) {
    if (bytes <= workspace.bytes()) return;
    workspace = {};  // the old one is given back first
    workspace = measure::Buffer(gpu, bytes);
  }

  Status enqueue(const Loaded& loaded, const Forward& forward) const {
    return tune::enqueue(loaded, forward, workspace.data(), gpu.stream());
  }

  Enqueue once(const Loaded& loaded) {
    make_room(loaded.program.recipe.workspace_bytes);
    workspace.fill(kWorkspacePoison);
    return [this, &loaded](const Forward& forward) { return enqueue(loaded, forward); };
  }

  // Calls over the input sets in rotation.
  measure::Call call_of(const Loaded& loaded) const {
    std::vector<Forward> runs;
    for (int set = 0; set < inputs.sets(); ++set) runs.push_back(inputs.forward(set));
    return [this, &loaded, runs = std::move(runs)](int set) {
      must(enqueue(loaded, runs[static_cast<std::size_t>(set)]));
    };
  }

  bool take(const Verdict& verdict, Measurement& m) const {
    m.o_error = std::max(m.o_error, verdict.o_error);
    m.state_error = std::max(m.state_error, verdict.state_error);
    if (verdict.why.empty()) return true;
    m.outcome = Outcome::wrong;
    m.why = verdict.why;
    return false;
  }

  // Whether it may be timed; else why not is in m.
  bool verify(const Candidate& candidate, const Loaded& loaded, bool at_size, Measurement& m) {
    const std::string name = to_text(candidate);
    if (!right_small.contains(name)) {
      const Result<Loaded> small = load(candidate, inputs.small_problem(), gpu.device(), cache);
      // What cannot serve the small problem, or by other kernels, is verified at its own size.
      if (!small && small.status().code() != Code::unsupported) must(small.status());
      if (small && !take(inputs.judge_small(once(*small)), m)) return false;
      at_size |= !small || !has_kernels_of(loaded.program.recipe, small->program.recipe);
      right_small.insert(name);
    }
    if (!at_size || right_at_size.contains(name)) return true;
    if (!take(inputs.judge_at_size(once(loaded)), m)) return false;
    right_at_size.insert(name);
    return true;
  }

  measure::Summary time(const Loaded& loaded, const Timing& timing) {
    make_room(loaded.program.recipe.workspace_bytes);
    const measure::Call call = call_of(loaded);
    const double first = measure::first_time(gpu, call);
    const bool slow = timing.give_up_us > 0 && first > timing.give_up_us + kFirstCall;
    if (slow || first > kLongCall) return measure::summarize({first});
    if (timing.window_us == 0) {
      return measure::call_times(gpu, call, inputs.sets(), timing.repeats);
    }
    return measure::graph_times(gpu, {call}, settings_of(timing)).front().summary;
  }

  measure::GraphSettings settings_of(const Timing& timing) const {
    return {.sets = inputs.sets(),
            .calls = 1,
            .repeats = timing.repeats,
            .window = timing.window_us,
            .warm_up_ms = timing.interleaved ? 50.0 : 2.0};
  }

  Measurement measure_one(const Candidate& candidate, const Timing& timing) {
    Measurement m;
    m.candidate = candidate;
    m.device = gpu.device().ordinal;
    const Result<Loaded> loaded = load(candidate, problem, gpu.device(), cache);
    if (!loaded) {
      m.outcome = outcome_of(loaded.status());
      m.why = loaded.status().message();
      return m;
    }
    try {
      if (verify(candidate, *loaded, timing.at_size, m)) m.time_us = time(*loaded, timing);
    } catch (const measure::Failure& failure) {
      m.outcome = outcome_of(failure.status);
      m.why = failure.what();
    }
    return m;
  }

  // The finals: all are verified, then the right ones timed in turn.
  void measure_in_turn(std::span<const Candidate> candidates, const Timing& timing,
                       const Done& done) {
    std::deque<Loaded> kept;
    std::vector<std::size_t> who;
    std::vector<Measurement> results(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      Measurement& m = results[i];
      m.candidate = candidates[i];
      m.device = gpu.device().ordinal;
      Result<Loaded> loaded = load(candidates[i], problem, gpu.device(), cache);
      if (!loaded) {
        m.outcome = outcome_of(loaded.status());
        m.why = loaded.status().message();
      } else if (verify(candidates[i], *loaded, timing.at_size, m)) {
        kept.push_back(*std::move(loaded));
        who.push_back(i);
      }
    }
    std::size_t bytes = 0;
    for (const Loaded& each : kept) bytes = std::max(bytes, each.program.recipe.workspace_bytes);
    make_room(bytes);
    std::vector<measure::Call> calls;
    for (const Loaded& each : kept) calls.push_back(call_of(each));
    const auto times = measure::graph_times(gpu, calls, settings_of(timing));
    for (std::size_t i = 0; i < who.size(); ++i) results[who[i]].time_us = times[i].summary;
    for (std::size_t i = 0; i < results.size(); ++i) done(i, std::move(results[i]));
  }
};

DeviceMeasurer::DeviceMeasurer(const measure::Gpu& gpu, const Problem& problem, cache::Cache& cache,
                               Inputs& inputs)
    : impl_(new Impl{gpu, problem, cache, inputs, {}, {}, {}}) {}

DeviceMeasurer::~DeviceMeasurer() = default;

Status DeviceMeasurer::measure(std::span<const Candidate> candidates, const Timing& timing,
                               const Done& done) {
  try {
    if (timing.interleaved) {
      impl_->measure_in_turn(candidates, timing, done);
      return {};
    }
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (std::chrono::steady_clock::now() > timing.until) break;
      done(i, impl_->measure_one(candidates[i], timing));
      if (!impl_->gpu.usable()) {
        return {Code::device_error, "the device no longer answers since " + to_text(candidates[i])};
      }
    }
  } catch (const measure::Failure& failure) {
    return failure.status;
  }
  return {};
}

}  // namespace kda::tune
