#include "bench/run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/measure.hpp"
#include "bench/report.hpp"
#include "cli/cases.hpp"
#include "cli/failure.hpp"
#include "cli/progress.hpp"
#include "cli/suites.hpp"
#include "cli/text_file.hpp"

namespace kda::bench {
namespace {

using cli::Failure;
using cli::must;

std::vector<Subject> subjects_asked(const Request& request) {
  std::vector<Subject> subjects;
  if (request.suite == "prefill") subjects = cli::suite(request.regimes);
  if (request.suite == kLinear) subjects = cli::linear_suite(request.regimes);
  if (request.suite == kDecode) {
    subjects = cli::serving_suite(cli::decode_problems(), request.regimes);
  }
  if (request.suite == kServing) {
    subjects = cli::serving_suite(cli::serving_problems(), request.regimes);
  }
  if (request.suite == kOriginal) subjects = cli::original_suite(request.regimes);
  std::vector<std::string> groups = cli::group_words(request.problems);
  if (request.tp > 0) groups = must(cli::with_tp(std::move(groups), request.tp));
  for (const std::string& text : groups) {
    for (Subject& subject : must(cli::subjects_of(text, request.regimes))) {
      subjects.push_back(std::move(subject));
    }
  }
  if (subjects.empty()) {
    throw Failure(cli::kBadCommand,
                  "nothing to measure: name a case, a problem in words or --suite prefill; "
                  "kda-bench --help shows examples");
  }
  return subjects;
}

bool same_inputs(const Subject& a, const Subject& b) {
  return a.name == b.name && a.cu_seqlens == b.cu_seqlens;
}

// What came of the run as a whole.
struct Tally {
  int right = 0, wrong = 0, failed = 0, bad_words = 0;

  void count(const Measurement& m) {
    if (m.verdict) ++(m.verdict->right ? right : wrong);
    if (m.skipped == kRunOnce) ++right;
    if (m.variant == nullptr || m.variant->status.ok()) return;
    const Code code = m.variant->status.code();
    if (code == Code::compile_failed || code == Code::device_error) ++failed;
    if (code == Code::invalid_argument) ++bad_words;
  }
  int exit_code() const {
    if (wrong > 0 || failed > 0) return cli::kFailed;
    if (right > 0) return cli::kOk;
    return bad_words > 0 ? cli::kBadCommand : cli::kFailed;
  }
};

class Stopwatch {
 public:
  explicit Stopwatch(double budget) : budget_(budget) {}
  bool spent() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    return budget_ > 0 && passed.count() > budget_;
  }

 private:
  double budget_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string title(const Subject& subject) { return subject.name + ", " + subject.regime + " gate"; }

}  // namespace

int run(const Request& request) {
  if (request.list) {
    print(cli::case_rows(), cli::case_columns(), request);
    return cli::kOk;
  }
  const std::vector<Subject> subjects = subjects_asked(request);
  for (const std::string* path : {&request.json, &request.md, &request.csv}) {
    cli::check_writable(*path);
  }
  if (const Result<device::Device> there = device::query(request.device); !there) {
    throw Failure(cli::kNothingRan, "nothing was run: " + there.status().message());
  }
  const Gpu gpu(request.device);
  const Circumstances circumstances{.machine = cli::machine_of(gpu.device()),
                                    .copy_bytes_per_second = measure::copy_bandwidth(gpu),
                                    .command = request.command,
                                    .seed = request.seed,
                                    .beta = request.beta};
  const Stopwatch clock(request.time_budget);
  cli::Progress progress(request.err, subjects.size(), {.quiet = request.quiet});
  cli::Json rows = cli::Json::array();
  Tally tally;
  std::unique_ptr<Bench> bench;
  const Subject* measured = nullptr;  // what bench holds
  for (const Subject& subject : subjects) {
    progress.step(title(subject));
    if (clock.spent()) {
      progress.note(title(subject) + ": skipped, the time budget is spent");
      rows.push_back(
          row_of({.subject = &subject, .skipped = "skipped: time budget"}, circumstances));
      continue;
    }
    try {
      if (measured == nullptr || !same_inputs(*measured, subject)) {
        bench.reset();
        bench = std::make_unique<Bench>(gpu, request, subject);
        measured = &subject;
      }
      bench->enter(subject.regime);
      for (const Measurement& m :
           request.profile ? bench->run_once(subject) : bench->measure(subject)) {
        tally.count(m);
        rows.push_back(row_of(m, circumstances));
        const std::string status = rows.back()["status"];
        if (status != "ok") progress.note(title(subject) + ": " + status);
      }
    } catch (const std::exception& failure) {  // Failure, the device's, or no memory
      progress.note(title(subject) + ": " + failure.what());
      rows.push_back(row_of({.subject = &subject, .skipped = failure.what()}, circumstances));
      ++tally.failed;
      bench.reset();
      measured = nullptr;
      if (!gpu.usable()) {
        progress.note("the device no longer answers; the rest is not measured");
        break;
      }
    }
  }
  print(rows, columns(request), request);
  return tally.exit_code();
}

}  // namespace kda::bench
