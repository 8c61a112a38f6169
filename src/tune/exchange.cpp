// Wisdom as JSON lines, out and in, and its house-keeping.
#include <fmt/format.h>

#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "tune/journal.hpp"
#include "tune/roots.hpp"
#include "tune/wisdom.hpp"

namespace kda::tune {

namespace {

constexpr std::size_t kMostExchangeBytes = std::size_t{1} << 20;

// Two answers to one question agree in this.
std::string question_of(const Record& record) {
  return digest(record.environment) + " " + key_of(record.problem);
}

// What is wrong with a file of the user's directory.
std::optional<Fault> fault_of(const std::string& path) {
  std::string text;
  if (const int error = base::file::read(path, kMostExchangeBytes, text)) {
    if (error == ENOENT) return std::nullopt;  // gone since it was listed
    const bool too_large = error == EFBIG;
    return Fault{path, base::file::describe(error), too_large};
  }
  const Result<Record> record = parse_record(text);
  if (!record) {
    const Status& status = record.status();
    return Fault{path, status.message(), status.code() != Code::unsupported};
  }
  const std::string place =
      digest(record->environment) + "/" + key_digest(record->problem) + ".json";
  if (path.ends_with("/" + place)) return std::nullopt;
  return Fault{path, "it answers another question than its name says"};
}

}  // namespace

std::string export_lines(const std::vector<Wisdom::Listed>& records) {
  std::string text;
  for (const Wisdom::Listed& each : records) text += to_json(*each.record) + "\n";
  return text;
}

Result<Import> import_lines(std::string_view text, Wisdom& into, bool lenient) {
  std::map<std::string, std::string> dates;  // of what is there
  for (const Wisdom::Listed& each : into.list()) {
    if (each.source != Source::user) continue;
    dates[question_of(*each.record)] = each.record->date;
  }

  Import import;
  std::map<std::string, Record> fresh;
  int number = 0;
  for (const std::string_view line : base::split(text, '\n')) {
    ++number;
    if (base::trim(line).empty()) continue;
    Result<Record> record = parse_record(line);
    if (!record) {
      import.refused.push_back(fmt::format("line {}: {}", number, record.status().message()));
      continue;
    }
    const std::string question = question_of(*record);
    const auto there = dates.find(question);
    if (there != dates.end() && there->second >= record->date) {
      ++import.kept;
      continue;
    }
    dates[question] = record->date;
    fresh.insert_or_assign(question, *std::move(record));
  }
  if (!import.refused.empty() && !lenient) {
    return Status(Code::invalid_argument,
                  fmt::format("{}{}; nothing was imported", import.refused.front(),
                              import.refused.size() > 1
                                  ? fmt::format(" (and {} more)", import.refused.size() - 1)
                                  : ""));
  }
  for (const auto& [question, record] : fresh) {
    if (Status status = into.add(record); !status) return status;
    ++import.added;
  }
  return import;
}

std::vector<Fault> verify(const Wisdom& wisdom) {
  std::vector<Fault> faults = directory_faults(wisdom.directory());
  for (const std::string& path : record_paths(wisdom.directory())) {
    if (std::optional<Fault> fault = fault_of(path)) faults.push_back(*std::move(fault));
  }
  return faults;
}

Result<Pruned> prune(Wisdom& wisdom, const Prune& what, const Environment& now) {
  if (!wisdom.keeps()) {
    return Status(Code::invalid_argument,
                  fmt::format("wisdom in '{}' is not to be written", wisdom.directory()));
  }
  const auto is_of = [&](const Environment& e) {
    return (what.stale && (e.templates != now.templates || e.compiler != now.compiler)) ||
           (!what.device.empty() && e.device == what.device);
  };
  Pruned removed;
  for (const std::string& path : record_paths(wisdom.directory())) {
    const std::optional<Fault> fault = fault_of(path);
    bool goes = what.all;
    if (fault) {
      goes = goes || (what.damaged && fault->damaged);
    } else if (const auto record = read_record(path)) {
      goes = goes || is_of(record->environment);
    }
    if (!goes) continue;
    const int error = base::file::remove(path);
    if (error == ENOENT) continue;  // another process was first
    if (error != 0) {
      wisdom.reload();
      return Status(Code::invalid_argument,
                    fmt::format("{} cannot be removed: {}", path, base::file::describe(error)));
    }
    ++removed.records;
  }
  const Result<int> journals =
      remove_journals(wisdom.directory(), [&](const JournalHeader* header) {
        return what.all || (header != nullptr && is_of(header->environment));
      });
  wisdom.reload();
  if (!journals) {
    return Status(journals.status().code(),
                  fmt::format("{} records and {}", removed.records, journals.status().message()));
  }
  removed.journals = *journals;
  return removed;
}

}  // namespace kda::tune
