#include "tune/journal.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <limits>
#include <memory>
#include <utility>

#include "base/digest.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "problem/problem.hpp"
#include "tune/fields_of.hpp"

namespace kda::tune {

namespace {

constexpr int kJournalFormat = 1;
constexpr const char* kFolder = "v1/journal";  // of a wisdom directory
constexpr std::size_t kMostJournalBytes = std::size_t{256} << 20;

std::string header_line(const JournalHeader& header) {
  return line_of({{"kda_journal", kJournalFormat},
                  {"problem", problem::to_text(header.problem)},
                  {"lengths", header.lengths},
                  {"environment", json_of(header.environment)},
                  {"method", header.method},
                  {"seed", header.seed},
                  {"date", header.date}});
}

Result<JournalHeader> parse_header(std::string_view line) {
  Fields fields(line, "journal");
  if (!fields.status()) return fields.status();
  const std::int64_t format = fields.integer("kda_journal", 1, std::numeric_limits<int>::max());
  if (format > kJournalFormat) {
    fields.refuse(fmt::format("format {} is newer than this library's {}", format, kJournalFormat));
  }
  JournalHeader header;
  const Result<Problem> parsed = problem::parse(fields.text("problem"));
  const Result<Problem> complete = parsed ? problem::complete(*parsed) : parsed;
  if (!complete) {
    fields.refuse(complete.status().message());
  } else {
    header.problem = *complete;
  }
  header.lengths = fields.integers("lengths");
  header.environment = environment_of(fields);
  header.method = fields.text("method");
  header.seed = static_cast<std::uint64_t>(
      fields.integer("seed", 0, std::numeric_limits<std::int64_t>::max()));
  header.date = fields.text("date");
  if (!fields.status()) return fields.status();
  return header;
}

bool same_question(const JournalHeader& a, const JournalHeader& b) {
  return key_of(a.problem) == key_of(b.problem) && a.lengths == b.lengths &&
         a.environment == b.environment;
}

// So that a search may still be writing it.
bool is_young(const std::string& path) {
  constexpr std::int64_t kHour = 3600;
  base::file::Info info;
  return base::file::info(path, info) != 0 || base::file::now() - info.changed < kHour;
}

Status checked(const std::string& path, int error) {
  if (error == 0) return {};
  return {Code::invalid_argument, fmt::format("journal {}: {}", path, base::file::describe(error))};
}

}  // namespace

Result<JournalContents> read_journal(const std::string& path) {
  std::string text;
  if (const int error = base::file::read(path, kMostJournalBytes, text)) {
    return Status(Code::invalid_argument,
                  fmt::format("journal {}: {}", path, base::file::describe(error)));
  }
  std::string_view rest = text;
  const auto next_line = [&] {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return line;
  };
  Result<JournalHeader> header = parse_header(next_line());
  if (!header) {
    return Status(Code::invalid_argument,
                  fmt::format("journal {}: line 1: {}", path, header.status().message()));
  }
  JournalContents contents;
  contents.header = *std::move(header);
  while (!rest.empty()) {
    const std::string_view line = next_line();
    if (base::trim(line).empty()) continue;
    if (Result<Measurement> m = parse_measurement(line)) {
      contents.measurements.push_back(*std::move(m));
      continue;
    }
    Fields fields(line, "journal");
    Result<Record> winner =
        fields.has("winner") ? parse_record(line_of(fields.object("winner"))) : fields.status();
    if (fields.has("winner") && winner) {
      contents.winner = *std::move(winner);
    } else {
      ++contents.damaged_lines;
    }
  }
  return contents;
}

Result<Journal> Journal::open(const std::string& path, const JournalHeader& header, bool resume) {
  const std::size_t slash = path.rfind('/');
  if (slash != std::string::npos) {
    if (const Status made = checked(path, base::file::make_directories(path.substr(0, slash)));
        !made) {
      return made;
    }
  }
  Journal journal;
  if (const Status locked = journal.lock(path); !locked) return locked;
  if (resume) {
    if (const Status status = journal.resume(path, header); !status) return status;
    if (journal.open_) return journal;
  }
  const Status opened = checked(path, journal.file_.open(path, base::file::Appender::Start::anew));
  if (!opened) return opened;
  journal.write_line(header_line(header));
  return journal;
}

Status Journal::lock(const std::string& path) {
  base::file::Info info;
  // Beside a device nothing is made.
  if (base::file::info(path, info) == 0 && !info.plain) return {};
  const std::size_t slash = path.rfind('/');
  if (!base::file::locks_work(slash == std::string::npos ? "." : path.substr(0, slash))) return {};
  const std::string name = path + ".lock";
  auto lock = std::make_unique<base::file::Lock>();
  const int error = lock->try_acquire(name);
  if (error == EWOULDBLOCK) {
    return {Code::invalid_argument,
            fmt::format("journal {}: {} is writing it", path, base::file::holder_of(name))};
  }
  // What else stops a lock stops the journal as well.
  if (error == 0) lock_ = std::move(lock);
  return {};
}

Status Journal::resume(const std::string& path, const JournalHeader& header) {
  base::file::Info info;
  if (base::file::info(path, info) != 0 || !info.plain || info.bytes == 0) return {};
  Result<JournalContents> before = read_journal(path);
  if (!before) return keep_aside(path, before.status().message());
  if (!same_question(before->header, header)) return {};
  earlier_ = std::move(before->measurements);
  Status opened = checked(path, file_.open(path, base::file::Appender::Start::at_end));
  if (!opened) return opened;
  open_ = true;
  // A last line half written must not swallow the next one.
  write_line("");
  return {};
}

Status Journal::keep_aside(const std::string& path, const std::string& why) {
  std::string aside = path + ".damaged";
  base::file::Info info;
  for (int next = 2; base::file::info(aside, info, true) == 0; ++next) {
    aside = fmt::format("{}.damaged{}", path, next);
  }
  Status moved = checked(path, base::file::move(path, aside));
  if (moved) set_aside_ = fmt::format("{}; kept as {}", why, aside);
  return moved;
}

void Journal::append(const Measurement& measurement) { write_line(to_json(measurement)); }

void Journal::finish(const Record& winner) {
  write_line(fmt::format("{{\"winner\":{}}}", to_json(winner)));
}

void Journal::write_line(const std::string& line) {
  const int error = file_.append(line + "\n");
  if (error == 0 || failed_) return;
  failed_ = true;
  base::log::warn(
      fmt::format("the tuning journal cannot be written ({}); the search goes on, and "
                  "cannot be resumed from here",
                  base::file::describe(error)));
}

Result<int> remove_journals(const std::string& wisdom_directory,
                            const std::function<bool(const JournalHeader*)>& goes) {
  namespace file = base::file;
  const std::string folder = file::join(wisdom_directory, kFolder);
  std::vector<std::string> names;
  if (const int error = file::list(folder, names)) {
    if (error == ENOENT) return 0;
    return Status(Code::invalid_argument,
                  fmt::format("no journals were removed: {}: {}", folder, file::describe(error)));
  }
  const bool has_locks = file::locks_work(folder);
  int removed = 0;
  std::string first_kept;  // and why
  for (const std::string& name : names) {
    if (!name.ends_with(".jsonl") && name.find(".jsonl.damaged") == std::string::npos) continue;
    const std::string path = file::join(folder, name), lock_name = path + ".lock";
    const Result<JournalContents> journal = read_journal(path);
    if (!goes(journal ? &journal->header : nullptr)) continue;
    file::Lock lock;
    int error = has_locks ? lock.try_acquire(lock_name) : (is_young(path) ? EWOULDBLOCK : 0);
    if (error == 0) error = file::remove(path);
    if (error != 0) {
      const bool fine = error == EWOULDBLOCK || error == ENOENT;  // another process was first
      if (!fine && first_kept.empty()) first_kept = path + ": " + file::describe(error);
      continue;
    }
    if (has_locks) (void)file::remove(lock_name);
    ++removed;
  }
  if (first_kept.empty()) return removed;
  return Status(Code::invalid_argument,
                fmt::format("{} journals were removed, but not {}", removed, first_kept));
}

std::string journal_path(const std::string& wisdom_directory, const JournalHeader& header) {
  const std::string name =
      base::digest(fmt::format("{}{}{}", key_of(header.problem), digest(header.environment),
                               fmt::join(header.lengths, ",")))
          .substr(0, 16);
  return base::file::join(wisdom_directory, fmt::format("{}/{}.jsonl", kFolder, name));
}

}  // namespace kda::tune
