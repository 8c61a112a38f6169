// kda-tune wisdom: what was measured, listed, carried elsewhere, checked.
#include "tune/wisdom.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/failure.hpp"
#include "tune/commands.hpp"
#include "tune/configuration.hpp"
#include "tune/record_row.hpp"

namespace kda::tune_tool {
namespace {

using cli::Column;
using cli::Json;
using cli::must;
using tune::Wisdom;

constexpr Column kFaults[] = {{"path", "damaged"}, {"why", "why"}};
constexpr Column kFields[] = {{"field", "field"}, {"value", "value"}};
constexpr Column kFound[] = {{"problem", "problem"}, {"found", "found"}};
constexpr Column kImported[] = {{"file", "file"},
                                {"added", "added"},
                                {"kept", "older than what is here"},
                                {"refused", "refused"}};

std::shared_ptr<Wisdom> wisdom_of(const Request& request) {
  return tune::shared_wisdom(request.wisdom_dir, request.cache_dir);
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    for (int c = std::fgetc(stdin); c != EOF; c = std::fgetc(stdin)) text << static_cast<char>(c);
    return text.str();
  }
  std::ifstream file(path);
  text << file.rdbuf();
  if (!file) throw cli::Failure(cli::kBadCommand, path + " cannot be read");
  return text.str();
}

// Of every source, or of the user's directory alone.
std::vector<Wisdom::Listed> records(const Wisdom& wisdom, bool own) {
  std::vector<Wisdom::Listed> all = wisdom.list();
  if (own) std::erase_if(all, [](const auto& each) { return each.source != tune::Source::user; });
  return all;
}

void print_lines(const Request& request, const std::vector<Wisdom::Listed>& all) {
  must(cli::write_text(request.output.file, tune::export_lines(all), request.output.out));
}

Json import_row(const std::string& file, const tune::Import& import) {
  return {
      {"file", file}, {"added", import.added}, {"kept", import.kept}, {"refused", import.refused}};
}

}  // namespace

int wisdom_path(const Request& request) {
  const std::string directory = wisdom_of(request)->directory();
  must(cli::write_text(request.output.file, directory + "\n", request.output.out));
  return directory.empty() ? cli::kFailed : cli::kOk;
}

int wisdom_ls(const Request& request) {
  Json rows = Json::array();
  for (const Wisdom::Listed& each : records(*wisdom_of(request), request.own)) {
    rows.push_back(record_row(*each.record));
    rows.back()["source"] = name_of(each.source);
  }
  cli::Document document(request.output);
  document.add("records", rows, record_columns());
  document.print();
  return cli::kOk;
}

int wisdom_show(const Request& request) {
  std::vector<Wisdom::Listed> found = records(*wisdom_of(request), false);
  std::erase_if(found, [&](const Wisdom::Listed& each) {
    return !tune::key_digest(each.record->problem).starts_with(request.key);
  });
  if (found.empty()) {
    throw cli::Failure(cli::kFailed, "no record's key begins with " + request.key);
  }
  cli::Document document(request.output);
  for (const Wisdom::Listed& each : found) {
    Json fields = Json::array({{{"field", "source"}, {"value", name_of(each.source)}}});
    if (!each.path.empty()) fields.push_back({{"field", "path"}, {"value", each.path}});
    const Json row = record_row(*each.record);
    for (const auto& [name, value] : row.items()) {
      fields.push_back({{"field", name}, {"value", value}});
    }
    document.add(tune::key_digest(each.record->problem), fields, kFields);
  }
  document.print();
  return cli::kOk;
}

// What a plan for the problem would find, and how well it matches.
int wisdom_find(const Request& request) {
  const std::shared_ptr<Wisdom> wisdom = wisdom_of(request);
  Json rows = Json::array();
  for (const Target& target : targets_of(request, {})) {
    for (const cli::Subject& subject : problems_of(request)) {
      const auto hint = wisdom->find(subject.problem, target.device);
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
  print_lines(request, records(*wisdom_of(request), request.own));
  return cli::kOk;
}

int wisdom_import(const Request& request) {
  const std::shared_ptr<Wisdom> wisdom = wisdom_of(request);
  Json rows = Json::array();
  for (const std::string& file : request.files) {
    const auto import = tune::import_lines(text_of(file), *wisdom, request.lenient);
    if (!import) throw cli::Failure(cli::kFailed, file + ": " + import.status().message());
    rows.push_back(import_row(file, *import));
  }
  cli::Document document(request.output);
  document.add("imported", rows, kImported);
  document.print();
  return cli::kOk;
}

int wisdom_merge(const Request& request) {
  Wisdom together("", "", base::env::CacheMode::off);  // in memory alone
  for (const std::string& file : request.files) {
    const auto import = tune::import_lines(text_of(file), together, request.lenient);
    if (!import) throw cli::Failure(cli::kFailed, file + ": " + import.status().message());
  }
  print_lines(request, records(together, true));
  return cli::kOk;
}

int wisdom_verify(const Request& request) {
  Json rows = Json::array();
  const std::shared_ptr<Wisdom> wisdom = wisdom_of(request);
  for (const tune::Fault& fault : tune::verify(*wisdom)) {
    rows.push_back({{"path", fault.path}, {"why", fault.why}});
  }
  cli::Document document(request.output);
  document.add("damaged", rows, kFaults);
  document.print();
  return rows.empty() ? cli::kOk : cli::kFailed;
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
  const int removed = must(tune::prune(*wisdom_of(request), request.prune, now));
  must(cli::write_text(request.output.file, fmt::format("{} removed\n", removed),
                       request.output.out));
  return cli::kOk;
}

}  // namespace kda::tune_tool
