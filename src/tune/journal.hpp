// A search's measurements as they come, flushed one by one: a killed search loses the one it was
// at.
//
// A JSONL file.  Line 1 is {"kda_journal": 1, "problem": "T=... N=...", "lengths": [...],
// "environment": {...}, "method": ..., "seed": ..., "date": ...}, the others are measurements as
// to_json(Measurement) writes them, and {"winner": record} ends a finished search.  Who writes
// <file> holds <file>.lock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/file_lock.hpp"
#include "tune/record.hpp"

namespace kda::tune {

struct JournalHeader {
  Problem problem;
  std::vector<std::int64_t> lengths;
  Environment environment;
  std::string method;
  std::uint64_t seed = 1;
  std::string date;
};

struct JournalContents {
  JournalHeader header;
  std::vector<Measurement> measurements;  // in the order made
  std::optional<Record> winner;           // of a finished search
  int damaged_lines = 0;                  // passed over: a last line half written, say
};

// Fails with invalid_argument where the file is no journal, or of a newer format.
Result<JournalContents> read_journal(const std::string& path);

class Journal {
 public:
  // Starts a new file; with `resume`, goes on with one that is there and whose problem and
  // environment are the same, and starts anew where they are not.  Fails where the file cannot be
  // written, or another search is writing it.
  static Result<Journal> open(const std::string& path, const JournalHeader& header, bool resume);

  // Of an earlier run, when resumed.
  const std::vector<Measurement>& earlier() const { return earlier_; }

  // Why a file that was to be resumed was not, and where it was kept aside; empty: none was.
  const std::string& set_aside() const { return set_aside_; }

  // Whether measurements were lost, of which a warning is logged.
  bool failed() const noexcept { return failed_; }

  // Each is on its way to the disk when these return.  Trouble with the file is logged once and
  // never ends a search.
  void append(const Measurement& measurement);
  void finish(const Record& winner);

 private:
  Journal() = default;
  void write_line(const std::string& line);

  Status lock(const std::string& path);
  Status resume(const std::string& path, const JournalHeader& header);
  Status keep_aside(const std::string& path, const std::string& why);

  std::unique_ptr<base::file::Lock> lock_;  // null where its filesystem has none to rely on
  base::file::Appender file_;
  bool open_ = false, failed_ = false;
  std::string set_aside_;
  std::vector<Measurement> earlier_;
};

// Takes away the journals of a wisdom directory that `goes` says so of, which is asked with null
// for what is none that can be read; but none that a search is writing or, on filesystems without
// locks, may be, as it is of the last hour.  Answers how many; fails, once all were tried, where
// one is not to be removed or the directory cannot be looked into.
Result<int> remove_journals(const std::string& wisdom_directory,
                            const std::function<bool(const JournalHeader*)>& goes);

// Where the search of a problem keeps its journal under a wisdom directory.
std::string journal_path(const std::string& wisdom_directory, const JournalHeader& header);

}  // namespace kda::tune
