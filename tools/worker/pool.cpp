#include "worker/pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "worker/messages.hpp"
#include "worker/process.hpp"

namespace kda::worker {
namespace {

using Clock = std::chrono::steady_clock;
using tune::Candidate;
using tune::Measurement;
using tune::Outcome;
using tune::Timing;

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// What a candidate that is begun just before Timing::until may take beyond it, in seconds.
constexpr double kOvertime = 3;

Status time_is_up() {
  return {Code::device_error, "the time was up before this search was through"};
}

// One device's process, started when it is first needed and again after a fault.
class Worker {
 public:
  Worker(const PoolOptions& options, int device) : options_(options), device_(device) {}

  void enter(const Subject& subject) {
    subject_ = subject;
    ready_ = false;
    usable_ = Status();
  }

  // Started, and told of the subject.  Where that cannot be it is not tried again for the subject.
  Status make_ready() {
    if (ready_ && process_) return {};
    if (usable_) usable_ = try_to_make_ready();
    return usable_;
  }

  // The candidates of one order; those that it could not answer for are left out.  Says what ended
  // it, if anything: its process is gone then.
  struct Broken {
    Outcome outcome;
    std::string why;
  };
  std::optional<Broken> order(std::span<const Candidate> candidates, const Timing& timing,
                              double seconds, const tune::Measurer::Done& done) {
    const auto deadline = std::min(after(seconds), options_.deadline);
    (void)process_->send(to_line(candidates, timing));
    for (std::string line;;) {
      switch (process_->hear(line, deadline)) {
        case Process::Heard::too_late:
          process_.reset();
          return Broken{Outcome::timeout,
                        fmt::format("no answer for {:.0f} s; its process was ended", seconds)};
        case Process::Heard::ended:
          return gone("");
        case Process::Heard::line:
          break;
      }
      Reply reply = parse_reply(line);
      if (reply.kind == Reply::Kind::end) return std::nullopt;
      if (reply.kind != Reply::Kind::measurement || reply.index >= candidates.size()) {
        return gone(reply.why);
      }
      reply.measurement.device = device_;
      reply.measurement.candidate = candidates[reply.index];
      done(reply.index, std::move(reply.measurement));
    }
  }

  int starts() const { return starts_; }

 private:
  Status try_to_make_ready() {
    // A process that died while idle is no reason to give up; one that does so again is.
    for (const bool last : {false, true}) {
      const bool fresh = !process_;
      if (Status status = process_ ? Status() : start(); !status) return status;
      Reply reply;
      const std::string trouble = ask(to_line(*subject_), options_.inputs_seconds, reply);
      if (trouble.empty() && reply.kind == Reply::Kind::ready) {
        ready_ = true;
        return {};
      }
      const std::string why = trouble.empty() ? reply.why : trouble;
      process_.reset();
      if (Clock::now() >= options_.deadline) return time_is_up();
      if (fresh || last) {
        return {Code::device_error, fmt::format("device {} cannot measure: {}", device_, why)};
      }
    }
    return {};
  }

  Status start() {
    std::vector<std::string> command;
    if (options_.command) {
      command = options_.command(device_);
    } else {
      command = {own_program(), "worker", "--device", std::to_string(device_)};
      if (!options_.cache_dir.empty()) {
        command.insert(command.end(), {"--cache-dir", options_.cache_dir});
      }
    }
    Result<Process> process = Process::start(command);
    if (!process) return process.status();
    process_.emplace(*std::move(process));
    ++starts_;
    return {};
  }

  Broken gone(const std::string& said) {
    const std::string how = process_->end();
    process_.reset();
    return {Outcome::crash, said.empty() ? "its process died: " + how : said};
  }

  // What went wrong, or empty.
  std::string ask(const std::string& line, double seconds, Reply& reply) {
    if (!process_->send(line)) return process_->end();
    std::string answer;
    switch (process_->hear(answer, std::min(after(seconds), options_.deadline))) {
      case Process::Heard::too_late:
        return fmt::format("no answer for {:.0f} s", seconds);
      case Process::Heard::ended:
        return process_->end();
      case Process::Heard::line:
        break;
    }
    reply = parse_reply(answer);
    return {};
  }

  const PoolOptions& options_;
  int device_;
  std::optional<Subject> subject_;
  std::optional<Process> process_;
  bool ready_ = false;
  Status usable_;  // for the subject; else why not
  int starts_ = 0;
};

}  // namespace

struct Pool::Impl {
  PoolOptions options;
  std::vector<std::unique_ptr<Worker>> workers;

  // One candidate by itself: it alone answers for what happens.
  Status one(Worker& worker, std::size_t index, const Candidate& candidate, const Timing& timing,
             const Done& done) {
    if (Status status = worker.make_ready(); !status) return status;
    bool answered = false;
    double seconds = timing.at_size ? options.finals_seconds : options.candidate_seconds;
    if (timing.until != Clock::time_point::max()) {
      const std::chrono::duration<double> left = timing.until - Clock::now();
      seconds = std::min(seconds, std::max(0.0, left.count()) + kOvertime);
    }
    const auto broken =
        worker.order(std::span(&candidate, 1), timing, seconds, [&](std::size_t, Measurement m) {
          answered = true;
          done(index, std::move(m));
        });
    if (!broken || answered) return {};
    if (Clock::now() >= options.deadline) return time_is_up();
    if (broken->outcome == Outcome::timeout && Clock::now() >= timing.until) return {};
    Measurement m;
    m.candidate = candidate;
    m.outcome = broken->outcome;
    m.why = broken->why;
    done(index, std::move(m));
    return {};
  }

  // All by one worker, in turn.  Where it breaks, nobody knows by whom: each by itself then.
  Status finals(std::span<const Candidate> candidates, Timing timing, const Done& done) {
    const auto found = std::find_if(workers.begin(), workers.end(),
                                    [](const auto& each) { return each->make_ready().ok(); });
    if (found == workers.end()) return workers.front()->make_ready();
    Worker& worker = **found;
    std::vector<std::optional<Measurement>> results(candidates.size());
    const auto broken =
        worker.order(candidates, timing, options.finals_seconds,
                     [&](std::size_t index, Measurement m) { results[index] = std::move(m); });
    if (!broken) {
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (results[i]) done(i, *std::move(results[i]));
      }
      return {};
    }
    if (Clock::now() >= options.deadline) return time_is_up();
    timing.interleaved = false;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (Status status = one(worker, i, candidates[i], timing, done); !status) return status;
    }
    return {};
  }

  // Every device takes the next candidate when it is through with one.  One that cannot measure
  // hands its candidate back and takes no other; where none can, that is a failure.
  Status split(std::span<const Candidate> candidates, const Timing& timing, const Done& done) {
    std::mutex mutex;  // guards what follows, and done
    std::size_t next = 0;
    std::vector<std::size_t> returned;
    std::optional<Status> failure;
    const Done in_order = [&](std::size_t index, Measurement m) {
      const std::lock_guard lock(mutex);
      done(index, std::move(m));
    };
    const auto take = [&]() -> std::optional<std::size_t> {
      const std::lock_guard lock(mutex);
      if (Clock::now() > timing.until) return std::nullopt;
      if (!returned.empty()) {
        const std::size_t index = returned.back();
        returned.pop_back();
        return index;
      }
      return next < candidates.size() ? std::optional(next++) : std::nullopt;
    };
    // Whether the worker is still fit.
    const auto drain = [&](Worker& worker) {
      for (std::optional<std::size_t> i = take(); i; i = take()) {
        if (Status status = one(worker, *i, candidates[*i], timing, in_order); !status) {
          const std::lock_guard lock(mutex);
          failure = status;
          returned.push_back(*i);
          return false;
        }
      }
      return true;
    };
    std::vector<char> fit(workers.size(), 0);
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < workers.size(); ++i) {
      others.emplace_back([&, i] { fit[i] = drain(*workers[i]) ? 1 : 0; });
    }
    fit[0] = drain(*workers.front()) ? 1 : 0;
    for (std::thread& each : others) each.join();
    // What came back when the others had ended.
    for (std::size_t i = 0; i < workers.size() && !returned.empty(); ++i) {
      if (fit[i] != 0 && Clock::now() <= timing.until) fit[i] = drain(*workers[i]) ? 1 : 0;
    }
    const bool some = std::any_of(fit.begin(), fit.end(), [](char each) { return each != 0; });
    return failure && !some ? *failure : Status();
  }
};

Pool::Pool(PoolOptions options) : impl_(new Impl{std::move(options), {}}) {
  for (const int device : impl_->options.devices) {
    impl_->workers.push_back(std::make_unique<Worker>(impl_->options, device));
  }
}

Pool::~Pool() = default;

void Pool::enter(const Subject& subject) {
  for (const auto& worker : impl_->workers) worker->enter(subject);
}

Status Pool::measure(std::span<const Candidate> candidates, const Timing& timing,
                     const Done& done) {
  return timing.interleaved ? impl_->finals(candidates, timing, done)
                            : impl_->split(candidates, timing, done);
}

int Pool::width() const { return static_cast<int>(impl_->workers.size()); }

int Pool::starts() const {
  int starts = 0;
  for (const auto& worker : impl_->workers) starts += worker->starts();
  return starts;
}

}  // namespace kda::worker
