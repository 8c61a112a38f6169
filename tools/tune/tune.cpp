// kda-tune tune: searches, problem by problem, and records the winners.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/failure.hpp"
#include "cli/machine.hpp"
#include "cli/progress.hpp"
#include "tune/commands.hpp"
#include "tune/configuration.hpp"
#include "tune/search.hpp"
#include "tune/wisdom.hpp"
#include "worker/pool.hpp"

namespace kda::tune_tool {
namespace {

using cli::Column;
using cli::Json;
using cli::must;

constexpr Column kColumns[] = {{"problem", "problem"},
                               {"strategy", "strategy"},
                               {"tuning", "tuning"},
                               {"us", "us", 1},
                               {"default_us", "default us", 1},
                               {"decision", "decision"},
                               {"considered", "considered"},
                               {"measured", "measured"},
                               {"rejected", "rejected"},
                               {"seconds", "s", 1},
                               {"ended_by", "ended by"},
                               {"failed", "failed"}};

// Ctrl-C: the search ends with what it has, its journal is on disk already.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);
extern "C" void on_interrupt(int) { interrupted = true; }

class InterruptScope {
 public:
  InterruptScope() : before_(std::signal(SIGINT, on_interrupt)) {}
  ~InterruptScope() { std::signal(SIGINT, before_); }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  void (*before_)(int);
};

std::string rejected_text(const tune::Record& record) {
  std::string text;
  for (const auto& [why, count] : record.rejected) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, why);
  }
  return text;
}

std::vector<std::int64_t> lengths_of(const cli::Subject& subject) {
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 1; i < subject.cu_seqlens.size(); ++i) {
    lengths.push_back(subject.cu_seqlens[i] - subject.cu_seqlens[i - 1]);
  }
  return lengths;
}

class Tuner {
 public:
  Tuner(const Request& request, const device::Device& device)
      : request_(request),
        device_(device),
        machine_(cli::machine_of(device)),
        cache_(cache::shared_cache(request.cache_dir)),
        wisdom_(tune::shared_wisdom(request.wisdom_dir, request.cache_dir)),
        pool_({.devices = request.devices.empty() ? std::vector{device.ordinal} : request.devices,
               .cache_dir = cache_->directory()}) {}

  Json tune(const cli::Subject& subject, double seconds) {
    Json row = {{"problem", subject.name}};
    const std::vector<std::int64_t> lengths = lengths_of(subject);
    const tune::JournalHeader header{
        subject.problem, lengths,       must(tune::environment_of(device_)),
        request_.method, request_.seed, machine_.date};
    Result<tune::Journal> journal = tune::Journal::open(
        tune::journal_path(wisdom_->directory(), header), header, request_.resume);
    pool_.enter({subject.problem, lengths, "mixed", request_.seed});
    tune::SearchOptions options;
    options.method = must(tune::parse_method(request_.method));
    options.scope.strategies = request_.strategies;
    if (!request_.tunings.empty()) options.scope.tuning = request_.tunings.front();
    options.time_limit_seconds = seconds;
    options.max_evals = request_.max_evals;
    options.seed = request_.seed;
    options.journal = journal ? &*journal : nullptr;
    options.stop = &interrupted;
    Result<tune::SearchResult> found =
        tune::search(subject.problem, lengths, device_, *cache_, pool_, options);
    if (!found) {
      row["failed"] = found.status().message();
      return row;
    }
    tune::Record& record = found->record;
    record.driver = machine_.driver;
    record.library = machine_.version + " " + machine_.commit;
    record.date = machine_.date;
    if (found->complete || found->ended_by != "stop") must(wisdom_->add(record));
    row["strategy"] = record.winner.strategy;
    row["tuning"] = tunable::to_text(record.winner.tuning);
    row["us"] = record.time_us.median;
    row["default_us"] = record.fallback_us;
    row["decision"] = record.decision;
    row["considered"] = record.considered;
    row["measured"] = record.measured;
    row["rejected"] = rejected_text(record);
    row["seconds"] = record.seconds;
    row["ended_by"] = found->ended_by;
    return row;
  }

 private:
  const Request& request_;
  device::Device device_;
  cli::Machine machine_;
  std::shared_ptr<cache::Cache> cache_;
  std::shared_ptr<tune::Wisdom> wisdom_;
  worker::Pool pool_;
};

}  // namespace

int tune(const Request& request) {
  const Result<device::Device> device = device::query(request.device);
  if (!device) {
    throw cli::Failure(cli::kNothingRan, "nothing was run: " + device.status().message());
  }
  const std::vector<cli::Subject> subjects = problems_of(request);
  const InterruptScope scope;
  Tuner tuner(request, *device);
  cli::Progress progress(request.output.err, subjects.size(), {.quiet = request.output.quiet});
  Json rows = Json::array();
  bool failed = false;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < subjects.size() && !interrupted; ++i) {
    progress.step(subjects[i].name);
    // What is left of the whole time, shared evenly.
    double seconds = 0;
    if (request.seconds > 0) {
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      seconds = std::max(
          1.0, (request.seconds - passed.count()) / static_cast<double>(subjects.size() - i));
    }
    rows.push_back(tuner.tune(subjects[i], seconds));
    if (rows.back().contains("failed")) {
      failed = true;
      progress.note(subjects[i].name + ": " + rows.back()["failed"].get<std::string>());
    }
  }
  cli::Document document(request.output);
  document.add("tuned", rows, kColumns);
  document.print();
  if (interrupted) {
    fmt::print(request.output.err, "interrupted; the same command with --resume goes on\n");
    return 130;
  }
  return failed ? cli::kFailed : cli::kOk;
}

}  // namespace kda::tune_tool
