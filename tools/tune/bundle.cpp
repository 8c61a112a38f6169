// kda-tune bundle: create, ls, verify.
#include "cache/bundle.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cache/layout.hpp"
#include "cache/survey.hpp"
#include "cli/failure.hpp"
#include "cli/presets.hpp"
#include "cli/progress.hpp"
#include "cli/text_file.hpp"
#include "reference/cases.hpp"
#include "tune/arguments.hpp"
#include "tune/commands.hpp"
#include "tune/configuration.hpp"
#include "tune/entry_row.hpp"
#include "tune/needs.hpp"

namespace kda::tune_tool {
namespace {

using cli::Column;
using cli::Json;
using cli::must;

constexpr Column kDamagedEntries[] = {{"entry", "entry"}, {"why", "damaged"}};
constexpr Column kLeftOut[] = {
    {"arch", "arch"}, {"problem", "problem"}, {"path", "path"}, {"why", "left out"}};

// A device's kernels for these problems, each as its file; whatever cannot be served is said.
class Collector {
 public:
  Collector(const Request& request, const Target& target) : request_(request), target_(target) {
    target_.device.ordinal = -1;  // nothing is loaded
  }

  void add(const cli::Subject& subject, const kda::Options& options) {
    Result<plan::Choice> choice = choose(subject, target_, options);
    if (choice) {
      recipes_.push_back(std::move(choice->recipe));
      names_.push_back(subject.name);
    } else if (choice.status().code() == Code::invalid_argument) {
      must(choice.status());
    } else {
      leave_out(subject.name, choice.status());
    }
  }

  void collect(std::vector<std::string>& files) {
    const std::shared_ptr<cache::Cache> cache = cache::shared_cache(request_.cache_dir);
    const auto built = program::build_all(recipes_, target_.device, *cache, request_.jobs);
    for (std::size_t i = 0; i < built.size(); ++i) {
      if (!built[i]) {
        if (built[i].status().code() != Code::unsupported) must(built[i].status());
        leave_out(names_[i], built[i].status());
        continue;
      }
      for (const program::Kernel& kernel : built[i]->kernels) {
        compose::Stage stage = kernel.stage;
        const auto add = [&](const std::string& prelude) {
          stage.prelude = prelude;
          const program::Unit unit = must(program::unit_of(stage, target_.device));
          // By the whole key, so that a bundle in reach is not copied under another compiler's
          // name.
          const Result<cache::Found> found =
              cache->get(unit.key, [&] { return program::compile_unit(unit, *cache); });
          files.push_back(cache::encode(unit.key, *must(found).entry));
        };
        for (const std::string& spilt : kernel.spilt) add(spilt);  // which says that it does
        add(kernel.stage.prelude);
      }
    }
  }

  const Json& left_out() const { return left_out_; }

 private:
  void leave_out(const std::string& problem, const Status& why) {
    left_out_.push_back({{"arch", target_.name}, {"problem", problem}, {"why", why.message()}});
  }

  const Request& request_;
  Target target_;
  std::vector<compose::Recipe> recipes_;
  std::vector<std::string> names_;
  Json left_out_ = Json::array();
};

// Behind each bare target the devices that it stands for: what was measured on one, or how many
// multiprocessors it has, may choose kernels for it that the target alone would not get.
std::vector<Target> with_devices(const std::vector<Target>& targets) {
  std::vector<Target> all;
  for (const Target& target : targets) {
    all.push_back(target);
    for (const device::Device& each : device::devices_of(target.name)) {
      all.push_back({each.name, each});
    }
  }
  return all;
}

std::vector<std::string> compiled(const Request& request, Json& left_out) {
  std::vector<std::string> files;
  const std::vector<Target> targets = with_devices(targets_of(request, kSeveralAbsent));
  const std::vector<cli::Subject> subjects = problems_of(request);
  cli::Progress progress(request.output.err, targets.size(), {.quiet = request.output.quiet});
  for (const Target& target : targets) {
    progress.step(target.name);
    Collector collector(request, target);
    for (const kda::Options& options : choices_of(request)) {
      for (const cli::Subject& subject : subjects) collector.add(subject, options);
    }
    collector.collect(files);
    for (const Json& row : collector.left_out()) left_out.push_back(row);
  }
  return files;
}

std::vector<std::string> cached(const Request& request, Json& left_out) {
  const std::string directory = cache::shared_cache(request.cache_dir)->directory();
  if (directory.empty()) throw cli::Failure(cli::kFailed, "there is no cache to take from");
  if (const std::string why = cache::Layout(directory).trouble(); !why.empty()) {
    throw cli::Failure(cli::kFailed, "the cache cannot be looked into: " + why);
  }
  const std::set<std::string> targets = wanted_targets(request);
  std::vector<std::string> files;
  for (const cache::Filed& filed : cache::survey(directory)) {
    if (!filed.trouble.empty()) {  // of whatever target
      left_out.push_back({{"path", filed.path}, {"why", filed.trouble}});
      continue;
    }
    if (!targets.empty() && !targets.contains(filed.stored.entry.target)) continue;
    std::string contents;
    const int error = base::file::read(filed.path, cache::kMaxFileBytes, contents);
    if (error == 0) files.push_back(std::move(contents));
    if (error == 0 || error == ENOENT) continue;  // gone meanwhile
    left_out.push_back({{"path", filed.path}, {"why", base::file::describe(error)}});
  }
  return files;
}

// The report would be written over the bundle that it is of.
void check_apart(const Request& request) {
  if (!cli::is_same_file(request.output.file, request.bundle_file)) return;
  throw cli::Failure(cli::kBadCommand, fmt::format("--output {} is the bundle itself, which the "
                                                   "report would replace; name another file",
                                                   request.output.file));
}

// Nor a pipe or what is open already: a bundle is written, and read back, whole.
void check_plain(const std::string& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  const bool fits = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  if (fits && !cli::is_stdout(file)) return;
  throw cli::Failure(cli::kBadCommand, fmt::format("bundle create {}: it is no plain file, and a "
                                                   "bundle is read back whole; name a file, such "
                                                   "as kernels.kdab",
                                                   file));
}

// What would choose among kernels to compile, as typed; empty: nothing.
std::string beside_from_cache(const Request& request) {
  if (!request.problems.empty()) return request.problems.front();
  if (request.tp != 0) return "--tp";
  if (!request.strategies.empty()) return "--strategy";
  if (!request.tunings.empty()) return "--tuning";
  return request.every_tuning ? "--every-tuning" : "";
}

// Why there is no kernel, as the rest of a sentence that says so.
std::string why_none(const Json& left_out) {
  if (left_out.empty()) return {};
  const Json& first = left_out.front();
  const std::string others =
      left_out.size() > 1 ? fmt::format("; {} more are left out", left_out.size() - 1) : "";
  if (first.contains("path")) {
    return fmt::format(": {}: {}{}", first["path"].get<std::string>(),
                       first["why"].get<std::string>(), others);
  }
  return fmt::format(": {} for {}: {}{}", first["problem"].get<std::string>(),
                     first["arch"].get<std::string>(), first["why"].get<std::string>(), others);
}

std::shared_ptr<const cache::Bundle> opened(const Request& request) {
  const auto bundle = cache::Bundle::read(request.bundle_file);
  if (!bundle) throw cli::Failure(cli::kFailed, bundle.status().message());
  return *bundle;
}

Json rows_of(const cache::Bundle& bundle, Json& damaged) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < bundle.size(); ++i) {
    cache::Stored stored;
    const std::string trouble = cache::decode(bundle.entry(i), stored);
    if (trouble.empty()) {
      rows.push_back(entry_row(stored));
    } else {
      damaged.push_back({{"entry", i}, {"why", trouble}});
    }
  }
  return rows;
}

}  // namespace

int bundle_create(const Request& request) {
  if (request.bundle_file == "-") {
    throw cli::Failure(cli::kBadCommand,
                       "bundle create -: stdout has the report, and a bundle is read back whole; "
                       "name a file, such as kernels.kdab");
  }
  const std::string& file = request.bundle_file;
  const bool is_problem =
      reference::find_case(file) != nullptr || cli::find_preset(file) != nullptr;
  if (is_problem && request.problems.empty()) {
    throw cli::Failure(
        cli::kBadCommand,
        fmt::format("bundle create {0}: {0} would be the file, with kernels of every case; write "
                    "bundle create kernels.kdab {0}, or ./{0} for such a file",
                    file));
  }
  if (const std::string word = beside_from_cache(request); request.from_cache && !word.empty()) {
    throw cli::Failure(
        cli::kBadCommand,
        fmt::format("bundle create --from-cache takes what the cache holds, of which "
                    "--arch alone may choose; {} is for what is compiled",
                    word));
  }
  if (!base::env::get("NVRTC_APPEND_FLAGS").empty()) {
    base::log::warn("NVRTC_APPEND_FLAGS is set: this bundle is for programs that set it alike");
  }
  check_plain(request.bundle_file);
  check_apart(request);
  cli::check_writable(request.bundle_file);
  Json left_out = Json::array();
  const std::vector<std::string> files =
      request.from_cache ? cached(request, left_out) : compiled(request, left_out);
  if (files.empty())
    throw cli::Failure(cli::kFailed,
                       "there is no kernel to put into a bundle" + why_none(left_out));
  const std::string bundle = cache::encode_bundle(files);
  cli::write_text(request.bundle_file, bundle, request.output.out);

  const auto written = opened(request);
  Json damaged = Json::array();
  const Json rows = rows_of(*written, damaged);
  cli::Document document(request.output);
  const Json made{
      {"file", request.bundle_file}, {"kernels", rows.size()}, {"bytes", written->bytes()}};
  document.tell("bundle", Json::array({made}),
                fmt::format("{}: {} kernels, {}", request.bundle_file, rows.size(),
                            base::bytes_text(written->bytes())));
  document.add("entries", rows, entry_columns());
  if (!left_out.empty()) document.add("left out", left_out, kLeftOut);
  document.print();
  // What no problem needs a strategy may refuse; of a cache all was wanted.
  return request.from_cache && !left_out.empty() ? cli::kFailed : cli::kOk;
}

int bundle_ls(const Request& request) {
  check_apart(request);
  const auto bundle = opened(request);
  Json damaged = Json::array();
  cli::Document document(request.output);
  document.add("entries", rows_of(*bundle, damaged), entry_columns());
  if (!damaged.empty()) document.add("damaged", damaged, kDamagedEntries);
  document.print();
  return cli::kOk;
}

int bundle_verify(const Request& request) {
  check_apart(request);
  const auto bundle = opened(request);
  Json damaged = Json::array();
  rows_of(*bundle, damaged);
  cli::Document document(request.output);
  document.tell("verified",
                Json::array({{{"entries", bundle->size()}, {"damaged", damaged.size()}}}),
                fmt::format("{} entries, {} damaged", bundle->size(), damaged.size()));
  document.add("damaged", damaged, kDamagedEntries);
  document.print();
  return damaged.empty() ? cli::kOk : cli::kFailed;
}

}  // namespace kda::tune_tool
