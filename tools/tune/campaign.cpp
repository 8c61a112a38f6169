#include "tune/campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "cli/failure.hpp"
#include "cli/progress.hpp"
#include "program/program.hpp"
#include "tune/precompile.hpp"
#include "tune/tuner.hpp"

namespace kda::tune_tool {
namespace {

using cli::Json;
using Clock = std::chrono::steady_clock;

constexpr double kCompileShare = 0.4;  // of the limit, at most, before anything is measured
// What a search that is at its finals when the limit comes may take beyond it.
constexpr double kGraceShare = 0.1, kGraceSeconds = 5;
constexpr double kLeast = 3;  // seconds that a search can do anything with

Clock::duration in(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string words_of(const tune::Progress& at) {
  const std::string best =
      at.best_us > 0 ? fmt::format(", best {:.1f} us: {}", at.best_us, at.best) : "";
  return fmt::format("{} {}/{}{}", at.phase, at.done, at.total, best);
}

class Campaign {
 public:
  Campaign(const Request& request, const device::Device& device,
           const std::vector<cli::Subject>& subjects)
      : request_(request),
        device_(device),
        subjects_(subjects),
        progress_(request.output.err, subjects.size(),
                  {.quiet = request.output.quiet, .limit_seconds = request.seconds}),
        rows_(subjects.size()) {
    queue_.resize(subjects.size());
    std::iota(queue_.begin(), queue_.end(), std::size_t{0});
    // The longest first: the last ones shall end together.
    std::stable_sort(queue_.begin(), queue_.end(), [&](std::size_t a, std::size_t b) {
      return weight_of(subjects[a]) > weight_of(subjects[b]);
    });
    for (const cli::Subject& each : subjects) weight_left_ += weight_of(each);
  }

  void compile() {
    Clock::time_point until = Clock::time_point::max();
    if (limited()) until = start_ + in(kCompileShare * request_.seconds);
    const Precompiled done = precompile(
        request_, device_, subjects_, until, [&](std::size_t kernels, std::size_t total) {
          progress_.wait(fmt::format("compiling kernels, {} of {}", kernels, total));
        });
    progress_.note(fmt::format("{} kernels of {} compiled in {:.1f} s by {} processes",
                               done.kernels, done.total, done.seconds, done.processes));
    if (!done.trouble.empty()) progress_.note("a process that compiles: " + done.trouble);
  }

  Json measure(const std::vector<int>& ordinals) {
    const std::size_t lanes = std::min(ordinals.size(), subjects_.size());
    lanes_ = static_cast<double>(lanes);
    const unsigned cores = program::default_threads();
    std::vector<std::thread> threads;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      std::vector<int> own;
      for (std::size_t i = lane; i < ordinals.size(); i += lanes) own.push_back(ordinals[i]);
      const unsigned share = std::max(1U, cores / static_cast<unsigned>(lanes));
      threads.emplace_back([this, own = std::move(own), share] { drain(own, share); });
    }
    for (std::thread& each : threads) each.join();
    Json rows = Json::array();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].empty()) {
        rows_[i] = {{"problem", subjects_[i].name}, {"failed", "not begun: the time was up"}};
        if (interrupted) continue;
      }
      rows.push_back(std::move(rows_[i]));
    }
    return rows;
  }

 private:
  bool limited() const { return request_.seconds > 0; }
  double left() const {
    return request_.seconds - std::chrono::duration<double>(Clock::now() - start_).count();
  }

  // The next problem, and what it may take of the time left: its weight's share of it.
  bool next(std::size_t& index, double& seconds) {
    const std::lock_guard lock(mutex_);
    if (queue_.empty() || interrupted || (limited() && left() < kLeast)) return false;
    index = queue_.front();
    queue_.erase(queue_.begin());
    const double weight = weight_of(subjects_[index]);
    seconds = limited() ? std::clamp(left() * lanes_ * weight / weight_left_, kLeast, left()) : 0;
    weight_left_ -= weight;
    fractions_[index] = 0;
    progress_.step(subjects_[index].name);
    return true;
  }

  void drain(const std::vector<int>& ordinals, unsigned compile_threads) {
    Clock::time_point deadline = Clock::time_point::max();
    if (limited()) {
      deadline =
          start_ + in(request_.seconds + std::max(kGraceSeconds, kGraceShare * request_.seconds));
    }
    std::size_t index = 0;
    double seconds = 0;
    std::unique_ptr<Tuner> tuner;
    while (next(index, seconds)) {
      Json row;
      try {
        if (!tuner) {
          tuner = std::make_unique<Tuner>(request_, device_, ordinals, compile_threads, deadline,
                                          [this](const std::string& line) { say(line); });
        }
        row = tuner->tune(subjects_[index], seconds,
                          [&](const tune::Progress& at) { report(index, seconds, at); });
      } catch (const std::exception& failure) {
        row = {{"problem", subjects_[index].name}, {"failed", failure.what()}};
      }
      const std::lock_guard lock(mutex_);
      fractions_.erase(index);
      if (row.contains("failed")) {
        progress_.note(subjects_[index].name + ": " + row["failed"].get<std::string>());
      }
      rows_[index] = std::move(row);
    }
  }

  void say(const std::string& line) {
    const std::lock_guard lock(mutex_);
    progress_.note(line);
  }

  void report(std::size_t index, double seconds, const tune::Progress& at) {
    const std::lock_guard lock(mutex_);
    const double phase = at.total > 0 ? static_cast<double>(at.done) / at.total : 0;
    fractions_[index] = seconds > 0 ? std::min(1.0, at.seconds / seconds) : 0.9 * phase;
    // The bar counts problems begun; of those under way it wants the fraction done together.
    double done = 1 - static_cast<double>(fractions_.size());
    for (const auto& [each, fraction] : fractions_) done += fraction;
    progress_.within(done, fmt::format("{}: {}", subjects_[index].name, words_of(at)));
  }

  const Request& request_;
  const device::Device& device_;
  const std::vector<cli::Subject>& subjects_;
  const Clock::time_point start_ = Clock::now();
  double lanes_ = 1;

  std::mutex mutex_;  // guards what follows
  cli::Progress progress_;
  std::vector<std::size_t> queue_;
  double weight_left_ = 0;
  std::map<std::size_t, double> fractions_;  // of the searches under way
  std::vector<Json> rows_;
};

}  // namespace

std::vector<int> devices_of(const Request& request, const device::Device& first) {
  const auto alike = [&](const device::Device& other) {
    return other.name == first.name && other.multiprocessors == first.multiprocessors;
  };
  // What is timed on one is recorded as the first one's.
  for (std::size_t i = 0; i < request.devices.size(); ++i) {
    const int ordinal = request.devices[i];
    const device::Device device = cli::must(device::query(ordinal));
    if (!alike(device)) {
      throw cli::Failure(cli::kBadCommand,
                         fmt::format("--devices: {} is {}, and {} is {}; a search takes one kind",
                                     ordinal, device.name, first.ordinal, first.name));
    }
    if (std::count(request.devices.begin(), request.devices.end(), ordinal) > 1) {
      throw cli::Failure(cli::kBadCommand, fmt::format("--devices: {} is named twice", ordinal));
    }
  }
  if (!request.devices.empty()) return request.devices;
  std::vector<int> ordinals{first.ordinal};
  if (request.device >= 0) return ordinals;
  for (int ordinal = 0;; ++ordinal) {
    const Result<device::Device> other = device::query(ordinal);
    if (!other) return ordinals;
    if (alike(*other) && ordinal != first.ordinal) ordinals.push_back(ordinal);
  }
}

double weight_of(const cli::Subject& subject) {
  constexpr double kUnit = 8192.0 * 64;  // value heads' tokens
  const Problem& problem = subject.problem;
  return 1 + static_cast<double>(problem.max_tokens) * problem.value_heads / kUnit;
}

Json run_campaign(const Request& request, const device::Device& device,
                  const std::vector<int>& ordinals, const std::vector<cli::Subject>& subjects) {
  Campaign campaign(request, device, subjects);
  campaign.compile();
  return campaign.measure(ordinals);
}

}  // namespace kda::tune_tool
