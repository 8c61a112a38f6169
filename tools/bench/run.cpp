#include "bench/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/measure.hpp"
#include "bench/report.hpp"
#include "bench/variant.hpp"
#include "cli/cases.hpp"
#include "cli/failure.hpp"
#include "cli/progress.hpp"
#include "cli/suites.hpp"
#include "cli/text_file.hpp"
#include "strategy/table.hpp"
#include "tune/candidate.hpp"

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

// Each of the results has a place of its own.
void check_apart(const Request& request) {
  const std::string* const places[] = {&request.json, &request.md, &request.csv};
  for (int i = 0; i < 3; ++i) {
    if (!cli::is_same_file(*places[i], *places[(i + 1) % 3])) continue;
    throw Failure(cli::kBadCommand,
                  fmt::format("--json, --md and --csv: two of them are {}; each wants a place of "
                              "its own",
                              *places[i]));
  }
}

// A word that no strategy has, of which a run of several would say nothing by its exit code.  A
// tuning may fit some of them alone.
void check_words(const Request& request) {
  std::vector<std::string> names = request.strategies;
  for (const std::string& name : names) {
    if (strategy::find(name) != nullptr) continue;
    throw Failure(cli::kBadCommand,
                  fmt::format("--strategy {}: there are {}", name, strategy::known_names()));
  }
  if (names.empty()) {
    for (const strategy::Strategy* each : strategy::table()) names.emplace_back(each->name);
  }
  for (const Wanted& wanted : wanted_variants({}, request.tunings)) {
    if (wanted.tuning.empty()) continue;
    std::string refusal;
    const bool fits = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      const auto parsed = tune::parse_candidate(name, wanted.tuning);
      if (!parsed) refusal = fmt::format("{}: {}", name, parsed.status().message());
      return bool(parsed);
    });
    if (fits) continue;
    throw Failure(
        cli::kBadCommand,
        fmt::format("--tuning \"{}\" fits none of the strategies, whose tunables kda-tune "
                    "list shows; {}",
                    wanted.tuning, refusal));
  }
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
  check_apart(request);
  if (request.list) {
    print(cli::case_rows(), cli::case_columns(), request);
    return cli::kOk;
  }
  const std::vector<Subject> subjects = subjects_asked(request);
  check_words(request);
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
