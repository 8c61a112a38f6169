#include "tune/tuner.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/failure.hpp"
#include "tune/configuration.hpp"
#include "tune/record_row.hpp"
#include "tune/wisdom.hpp"

namespace kda::tune_tool {
namespace {

using cli::Column;
using cli::Json;
using cli::must;

constexpr Column kTunedColumns[] = {{"problem", "problem"},
                                    {"strategy", "strategy"},
                                    {"tuning", "tuning"},
                                    {"time_us.median", "us", 1},
                                    {"default_us", "default us", 1},
                                    {"decision", "decision"},
                                    {"considered", "considered"},
                                    {"measured", "measured"},
                                    {"refused", "refused"},
                                    {"seconds", "s", 1},
                                    {"ended_by", "ended by"},
                                    {"not_recorded", "not recorded"},
                                    {"no_journal", "no journal"},
                                    {"failed", "failed"}};

std::string refused_text(const tune::Record& record) {
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

}  // namespace

std::atomic<bool> interrupted{false};

tune::SearchOptions search_options_of(const Request& request) {
  tune::SearchOptions options;
  options.method = must(tune::parse_method(request.method));
  options.scope.strategies = request.strategies;
  options.scope.tuning = fixed_tuning(request);
  options.max_evals = request.max_evals;
  options.seed = request.seed;
  options.stop = &interrupted;
  return options;
}

Tuner::Tuner(const Request& request, const device::Device& device, std::vector<int> ordinals,
             unsigned compile_threads, std::chrono::steady_clock::time_point deadline,
             std::function<void(const std::string&)> say)
    : request_(request),
      say_(std::move(say)),
      device_(device),
      compile_threads_(compile_threads),
      machine_(cli::machine_of(device)),
      cache_(cache::shared_cache(request.cache_dir)),
      wisdom_(tune::shared_wisdom(request.wisdom_dir, request.cache_dir)),
      pool_({.devices = std::move(ordinals),
             .cache_dir = cache_->directory(),
             .deadline = deadline}) {}

Json Tuner::tune(const cli::Subject& subject, double seconds, const OnProgress& on_progress) {
  Json row = {{"problem", subject.name}};
  const std::vector<std::int64_t> lengths = lengths_of(subject);
  const tune::JournalHeader header{
      subject.problem, lengths,       must(tune::environment_of(device_)),
      request_.method, request_.seed, machine_.date};
  std::optional<tune::Journal> journal = open_journal(header, row);
  pool_.enter({subject.problem, lengths, "mixed", request_.seed});
  tune::SearchOptions options = search_options_of(request_);
  options.time_limit_seconds = seconds;
  options.compile_threads = compile_threads_;
  options.journal = journal ? &*journal : nullptr;
  options.on_progress = on_progress;
  Result<tune::SearchResult> found =
      tune::search(subject.problem, lengths, device_, *cache_, pool_, options);
  if (journal && journal->failed()) row["no_journal"] = "it could not be written to its end";
  if (!found) {
    row["failed"] = found.status().message();
    return row;
  }
  tune::Record& record = found->record;
  record.driver = machine_.driver;
  record.library = machine_.version + " " + machine_.commit;
  record.date = machine_.date;
  row.update(record_row(record));
  if (const std::string why = why_not_recorded(record); !why.empty()) {
    row["not_recorded"] = why;
  } else if (found->complete || found->ended_by != "stop") {
    if (const Status added = wisdom_->add(record); !added) row["failed"] = added.message();
  }
  row["refused"] = refused_text(record);
  row["ended_by"] = found->ended_by;
  return row;
}

std::optional<tune::Journal> Tuner::open_journal(const tune::JournalHeader& header, Json& row) {
  if (!wisdom_->keeps()) return std::nullopt;
  const std::string path = tune::journal_path(wisdom_->directory(), header);
  Result<tune::Journal> journal = tune::Journal::open(path, header, request_.resume);
  const auto name = row["problem"].get<std::string>();
  if (!journal) {
    row["no_journal"] = journal.status().message();
    say_(fmt::format("{}: measured without a journal to resume from: {}", name,
                     journal.status().message()));
    return std::nullopt;
  }
  row["journal"] = path;
  if (!journal->set_aside().empty()) {
    say_(fmt::format("{}: begun anew: {}", name, journal->set_aside()));
  }
  return *std::move(journal);
}

std::string Tuner::why_not_recorded(const tune::Record& record) const {
  if (request_.strategies.empty() && request_.tunings.empty()) return {};
  const auto hint = wisdom_->find(record.problem, device_);
  if (!hint || hint->match != tune::Match::exact) return {};
  // Who names a directory wants it there, whatever the library ships.
  if (hint->source != tune::Source::user && !request_.wisdom_dir.empty()) return {};
  if (record.time_us.median < hint->microseconds) return {};
  return fmt::format(
      "{} of {:.1f} us stands: with --strategy or --tuning only a faster one is recorded",
      tune::to_text(hint->candidate), hint->microseconds);
}

std::span<const Column> tuned_columns() { return kTunedColumns; }

}  // namespace kda::tune_tool
