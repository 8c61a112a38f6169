// One search after another on a set of devices: what a lane of a campaign does.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cli/machine.hpp"
#include "cli/rows.hpp"
#include "cli/subject.hpp"
#include "device/device.hpp"
#include "tune/request.hpp"
#include "tune/search.hpp"
#include "worker/pool.hpp"

namespace kda::tune_tool {

// Set by Ctrl-C: searches end with what they have, their journals are on disk already.
extern std::atomic<bool> interrupted;

// --method, --strategy, --tuning and the limits, as the searches take them.  Throws Failure.
tune::SearchOptions search_options_of(const Request& request);

class Tuner {
 public:
  // Nothing lasts past `deadline` but the end of a process.  `say` is told what should not pass
  // unseen.
  Tuner(const Request& request, const device::Device& device, std::vector<int> ordinals,
        unsigned compile_threads, std::chrono::steady_clock::time_point deadline,
        std::function<void(const std::string&)> say);

  // Searches, keeps the record, answers its row: problem, journal or, where that could not be
  // written, no_journal, and what record_row() has or failed.  seconds 0: no limit.
  using OnProgress = std::function<void(const tune::Progress&)>;
  cli::Json tune(const cli::Subject& subject, double seconds, const OnProgress& on_progress);

 private:
  // None where measurements are not kept either; of one that fails the row has the reason.
  std::optional<tune::Journal> open_journal(const tune::JournalHeader& header, cli::Json& row);
  // Of a search that was told what to leave out, which takes no faster winner's place; else empty.
  std::string why_not_recorded(const tune::Record& record) const;

  const Request& request_;
  std::function<void(const std::string&)> say_;
  device::Device device_;
  unsigned compile_threads_;
  cli::Machine machine_;
  std::shared_ptr<cache::Cache> cache_;
  std::shared_ptr<tune::Wisdom> wisdom_;
  worker::Pool pool_;
};

std::span<const cli::Column> tuned_columns();

}  // namespace kda::tune_tool
