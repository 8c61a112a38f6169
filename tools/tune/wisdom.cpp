// kda-tune wisdom: what was measured, listed, carried elsewhere, checked.
#include "tune/wisdom.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/failure.hpp"
#include "cli/tell.hpp"
#include "cli/text_file.hpp"
#include "strategy/table.hpp"
#include "tune/commands.hpp"
#include "tune/configuration.hpp"
#include "tune/record_row.hpp"
#include "tune/roots.hpp"

namespace kda::tune_tool {
namespace {

using cli::Column;
using cli::Json;
using cli::must;
using tune::Wisdom;

constexpr Column kFaults[] = {{"path", "damaged"}, {"why", "why"}};
constexpr Column kUnreadableRecords[] = {{"path", "cannot be read"}, {"why", "why"}};
constexpr Column kOtherRecords[] = {{"path", "file"}, {"why", "why"}};
constexpr Column kRecordFields[] = {{"field", "field"}, {"value", "value"}};
constexpr Column kFound[] = {{"problem", "problem"}, {"found", "found"}};
constexpr Column kImported[] = {{"file", "file"},
                                {"added", "added"},
                                {"kept", "older than what is here"},
                                {"refused", "refused"}};

std::shared_ptr<Wisdom> wisdom_of(const Request& request) {
  return tune::shared_wisdom(request.wisdom_dir, request.cache_dir);
}

// Throws where it would pass for an empty one: it is not used, or was named and is none.  The
// user's own need not be there yet.
std::shared_ptr<Wisdom> wisdom_there(const Request& request) {
  std::shared_ptr<Wisdom> wisdom = wisdom_of(request);
  if (!wisdom->distrusted().empty()) {
    throw cli::Failure(cli::kFailed,
                       "the library does not use these measurements: " + wisdom->distrusted());
  }
  const std::string& directory = wisdom->directory();
  base::file::Info info;
  int error = request.wisdom_dir.empty() ? 0 : base::file::info(directory, info);
  if (error == 0 && !request.wisdom_dir.empty() && !info.directory) error = ENOTDIR;
  if (error != 0) {
    throw cli::Failure(cli::kFailed, fmt::format("--wisdom-dir {}: {}; a directory of measurements "
                                                 "is wanted, as kda-tune wisdom path names one",
                                                 directory, base::file::describe(error)));
  }
  return wisdom;
}

// Nor where it would pass for one that holds less.
std::shared_ptr<Wisdom> wisdom_to_read(const Request& request) {
  std::shared_ptr<Wisdom> wisdom = wisdom_there(request);
  if (const std::string why = tune::why_not_listed(wisdom->directory()); !why.empty()) {
    throw cli::Failure(cli::kFailed, "the measurements cannot be looked into: " + why);
  }
  return wisdom;
}

std::string text_of(const std::string& path) {
  const auto refused = [&] {
    return cli::Failure(cli::kBadCommand,
                        fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(
      path == "-" ? nullptr : std::fopen(path.c_str(), "r"),
      [](std::FILE* file) { return std::fclose(file); });
  std::FILE* const file = path == "-" ? stdin : opened.get();
  if (file == nullptr) throw refused();
  std::string text;
  char part[1 << 14];
  while (const std::size_t count = std::fread(part, 1, sizeof(part), file)) {
    text.append(part, count);
  }
  if (std::ferror(file) != 0) throw refused();  // a directory opens, but cannot be read
  return text;
}

tune::Import import(const std::string& file, const std::string& text, Wisdom& into, bool lenient) {
  const auto import = tune::import_lines(text, into, lenient);
  if (!import) throw cli::Failure(cli::kFailed, file + ": " + import.status().message());
  return *import;
}

// One that keeps nothing.
std::shared_ptr<Wisdom> in_memory() {
  return std::make_shared<Wisdom>("", "", base::env::CacheMode::off);
}

// Of every source, or of the user's directory alone.
std::vector<Wisdom::Listed> records(const Wisdom& wisdom, bool own) {
  std::vector<Wisdom::Listed> all = wisdom.list();
  if (own) std::erase_if(all, [](const auto& each) { return each.source != tune::Source::user; });
  return all;
}

void print_lines(const Request& request, const std::vector<Wisdom::Listed>& all) {
  cli::write_text(request.output.file, tune::export_lines(all), request.output.out);
}

Json import_row(const std::string& file, const tune::Import& import) {
  return {
      {"file", file}, {"added", import.added}, {"kept", import.kept}, {"refused", import.refused}};
}

}  // namespace

int wisdom_path(const Request& request) {
  const std::string directory = wisdom_of(request)->directory();
  cli::Document document(request.output);
  document.tell("path", Json::array({{{"path", directory}}}), directory);
  document.print();
  return directory.empty() ? cli::kFailed : cli::kOk;
}

int wisdom_ls(const Request& request) {
  Json rows = Json::array();
  for (const Wisdom::Listed& each : records(*wisdom_to_read(request), request.own)) {
    rows.push_back(record_row(*each.record));
    rows.back()["source"] = name_of(each.source);
  }
  cli::Document document(request.output);
  document.add("records", rows, record_columns());
  document.print();
  return cli::kOk;
}

int wisdom_show(const Request& request) {
  std::vector<Wisdom::Listed> found = records(*wisdom_to_read(request), false);
  std::erase_if(found, [&](const Wisdom::Listed& each) {
    return !tune::key_digest(each.record->problem).starts_with(request.key);
  });
  if (found.empty()) {
    throw cli::Failure(cli::kFailed,
                       fmt::format("no record's key begins with {}; kda-tune wisdom ls shows them",
                                   base::quote(request.key)));
  }
  cli::Document document(request.output);
  for (const Wisdom::Listed& each : found) {
    Json fields = Json::array({{{"field", "source"}, {"value", name_of(each.source)}}});
    if (!each.path.empty()) fields.push_back({{"field", "path"}, {"value", each.path}});
    const Json row = record_row(*each.record);
    for (const auto& [name, value] : row.items()) {
      fields.push_back({{"field", name}, {"value", value}});
    }
    document.add(tune::key_digest(each.record->problem), fields, kRecordFields);
  }
  document.print();
  return cli::kOk;
}

// What a plan for the problem would find, and how well it matches.
int wisdom_find(const Request& request) {
  const std::vector<Target> targets = targets_of(request, "");
  if (targets.empty()) {
    throw cli::Failure(cli::kBadCommand, "there is no device here; name one by --arch");
  }
  if (!request.tunings.empty()) {
    throw cli::Failure(cli::kBadCommand,
                       "--tuning: records are found by problem, device and strategy");
  }
  const std::vector<kda::Options> choices = choices_of(request);
  if (choices.size() > 1) {
    throw cli::Failure(cli::kBadCommand, "--strategy: wisdom find takes one");
  }
  const std::string strategy = choices.front().strategy;
  if (!strategy.empty() && strategy::find(strategy) == nullptr) {
    throw cli::Failure(cli::kBadCommand,
                       fmt::format("no strategy is called {}; kda-tune list shows them", strategy));
  }
  const std::shared_ptr<Wisdom> wisdom = wisdom_of(request);
  Json rows = Json::array();
  for (const Target& target : targets) {
    for (const cli::Subject& subject : problems_of(request)) {
      const auto hint = wisdom->find(subject.problem, target.device, strategy);
      Json row = {{"problem", subject.name}, {"device", target.device.name}};
      row["found"] = hint ? tune::to_text(hint->candidate) + ": " + hint->words : "nothing";
      if (hint) row["match"] = name_of(hint->match);
      rows.push_back(std::move(row));
    }
  }
  cli::Document document(request.output);
  document.add("found", rows, kFound);
  document.print();
  return cli::kOk;
}

int wisdom_export(const Request& request) {
  print_lines(request, records(*wisdom_to_read(request), request.own));
  return cli::kOk;
}

int wisdom_import(const Request& request) {
  const std::shared_ptr<Wisdom> wisdom = wisdom_of(request);
  if (const std::string why = why_not_kept(*wisdom); !why.empty()) {
    throw cli::Failure(cli::kFailed, "nothing was imported: " + why);
  }
  std::vector<std::string> texts;
  for (const std::string& file : request.files) texts.push_back(text_of(file));
  // All or none: the first file is not kept where the second one is refused.
  const std::shared_ptr<Wisdom> trial = in_memory();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    (void)import(request.files[i], texts[i], *trial, request.lenient);
  }
  Json rows = Json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string& file = request.files[i];
    rows.push_back(import_row(file, import(file, texts[i], *wisdom, request.lenient)));
  }
  cli::Document document(request.output);
  document.add("imported", rows, kImported);
  document.print();
  return cli::kOk;
}

int wisdom_merge(const Request& request) {
  const std::shared_ptr<Wisdom> together = in_memory();
  for (const std::string& file : request.files) {
    for (const std::string& line :
         import(file, text_of(file), *together, request.lenient).refused) {
      cli::tell(request.output.err, fmt::format("{}: {}; passed over\n", file, line));
    }
  }
  print_lines(request, records(*together, true));
  return cli::kOk;
}

int wisdom_verify(const Request& request) {
  Json rows = Json::array(), unreadable = Json::array(), others = Json::array();
  const std::shared_ptr<Wisdom> wisdom = wisdom_there(request);
  for (const tune::Fault& fault : tune::verify(*wisdom)) {
    Json& kind = fault.damaged ? rows : (tune::is_unreadable(fault) ? unreadable : others);
    kind.push_back({{"path", fault.path}, {"why", fault.why}});
  }
  cli::Document document(request.output);
  document.add("damaged", rows, kFaults);
  if (!unreadable.empty()) document.add("unreadable", unreadable, kUnreadableRecords);
  if (!others.empty()) document.add("not for this library", others, kOtherRecords);
  document.print();
  return rows.empty() && unreadable.empty() ? cli::kOk : cli::kFailed;
}

int wisdom_prune(const Request& request) {
  if (!request.prune.stale && !request.prune.damaged && !request.prune.all &&
      request.prune.device.empty()) {
    throw cli::Failure(cli::kBadCommand,
                       "say what goes: --stale, --damaged, --of-device NAME or --all");
  }
  tune::Environment now;
  if (request.prune.stale) {
    // Templates and compiler are the same for every device.
    now = must(tune::environment_of(must(device::parse("h200"))));
  }
  if (const std::string why = why_not_kept(*wisdom_of(request)); !why.empty()) {
    throw cli::Failure(cli::kFailed, "nothing was removed: " + why);
  }
  tune::Prune what = request.prune;
  // A word such as h200 stands for the name that records have.
  if (const auto known = device::parse(what.device)) what.device = known->name;
  const auto removed = tune::prune(*wisdom_to_read(request), what, now);
  if (!removed) throw cli::Failure(cli::kFailed, removed.status().message());
  const std::string journals =
      removed->journals == 0 ? "" : fmt::format(", and {} journals of searches", removed->journals);
  cli::Document document(request.output);
  document.tell("removed",
                Json::array({{{"removed", removed->records}, {"journals", removed->journals}}}),
                fmt::format("{} removed{}", removed->records, journals));
  document.print();
  return cli::kOk;
}

}  // namespace kda::tune_tool
