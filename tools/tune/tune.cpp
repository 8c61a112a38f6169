// kda-tune tune: searches, over all devices, and records the winners.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/failure.hpp"
#include "cli/tell.hpp"
#include "cli/text_file.hpp"
#include "tune/campaign.hpp"
#include "tune/commands.hpp"
#include "tune/configuration.hpp"
#include "tune/precompile.hpp"
#include "tune/tuner.hpp"

namespace kda::tune_tool {
namespace {

using cli::Json;

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

// Other gates than those that a search has would be passed over, and several one search made again.
void check_regimes(const Request& request) {
  for (const std::string& text : request.problems) {
    for (const std::string_view word : base::split(text, ' ')) {
      if (!word.starts_with("gate_regime=") || word == "gate_regime=mixed") continue;
      throw cli::Failure(cli::kBadCommand,
                         fmt::format("{}: a search measures by mixed gates alone; leave the word "
                                     "out, or say gate_regime=mixed",
                                     word));
    }
  }
}

bool any(const Json& rows, const char* key, const char* value) {
  return std::any_of(rows.begin(), rows.end(), [&](const Json& row) {
    const auto at = row.find(key);
    return at != row.end() && (value == nullptr || *at == value);
  });
}

}  // namespace

int tune(const Request& request) {
  // A wrong word ends here, device or not.
  (void)search_options_of(request);
  const std::vector<cli::Subject> subjects = problems_of(request);
  check_regimes(request);
  if (cli::is_same_file(request.plot, request.output.file)) {
    throw cli::Failure(cli::kBadCommand, fmt::format("--plot {0} and --output {1}: each wants a "
                                                     "place of its own, as --plot searches.html",
                                                     request.plot, request.output.file));
  }
  cli::check_writable(request.plot);
  const Result<device::Device> device =
      device::query(request.devices.empty() ? request.device : request.devices.front());
  if (!device) {
    throw cli::Failure(cli::kNothingRan, "nothing was run: " + device.status().message());
  }
  if (!request.slice.empty()) return compile_slice(request, *device, subjects);
  const auto wisdom = tune::shared_wisdom(request.wisdom_dir, request.cache_dir);
  if (const std::string why = why_not_kept(*wisdom); !why.empty()) {
    cli::tell(request.output.err, fmt::format("nothing will be recorded: {}\n", why));
  }
  const InterruptScope scope;
  const Json rows = run_campaign(request, *device, devices_of(request, *device), subjects);
  cli::Document document(request.output);
  document.add("tuned", rows, tuned_columns());
  document.print();
  if (!request.plot.empty()) {
    std::vector<std::string> journals;
    for (const Json& row : rows) {
      if (row.contains("journal")) journals.push_back(row["journal"].get<std::string>());
    }
    write_plot(journals, request.plot, request.output.out);
  }
  const bool resumable = wisdom->keeps() && !any(rows, "no_journal", nullptr);
  if (interrupted) {
    cli::tell(request.output.err, resumable
                                      ? "interrupted; the same command with --resume goes on\n"
                                      : "interrupted; what no journal was kept of begins anew\n");
    return 130;
  }
  if (any(rows, "ended_by", "time limit")) {
    cli::tell(request.output.err,
              fmt::format("the time limit ended some searches; {}\n",
                          resumable ? "--resume with more --time goes on"
                                    : "those that no journal was kept of begin anew"));
  }
  return any(rows, "failed", nullptr) ? cli::kFailed : cli::kOk;
}

}  // namespace kda::tune_tool
