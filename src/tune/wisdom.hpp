// Wisdom: what was measured, found again.  Records lie in directories:
//
//   <root>/v1/<environment's digest>/manifest.json          the environment, for people and lookup
//   <root>/v1/<environment's digest>/<key's digest>.json    one record a file, published by rename
//   <root>/v1/tmp/                                          half-written ones
//   <root>/v1/journal/                                      searches under way (journal.hpp)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.hpp"
#include "tune/record.hpp"

namespace kda::tune {

// How well a record answers the question asked, best first.
enum class Match {
  exact,         // this problem in this environment
  other_build,   // this problem on this device, with other templates or another compiler
  nearest,       // another size of it on this device
  other_device,  // measured on a device of the same capability
};
const char* name_of(Match match) noexcept;

enum class Source {
  user,     // Options::wisdom_dir, $KDA_WISDOM_DIR, or in the cache's directory
  shared,   // one of $KDA_WISDOM_PATH's, read only
  shipped,  // inside the library
};
const char* name_of(Source source) noexcept;

struct Hint {
  std::shared_ptr<const Record> record;
  Match match;
  Source source;
  Candidate candidate;      // of the strategy asked for
  double microseconds = 0;  // measured, for the record's problem
  std::string words;        // "exact, user wisdom of 2026-11-21: 712.3 us, 14.2% under the default"
};

// Damaged or foreign entries are passed over with one warning; an unreadable directory is empty.
// Any number of threads at once.
class Wisdom {
 public:
  // directory empty: $KDA_WISDOM_DIR, else `wisdom` beside the compiled kernels of cache_dir.
  // mode as of the kernels' cache: off reads and writes no directory, read_only writes none.
  Wisdom(const std::string& directory, const std::string& cache_dir,
         base::env::CacheMode mode = base::env::cache_mode());
  ~Wisdom();
  Wisdom(const Wisdom&) = delete;
  Wisdom& operator=(const Wisdom&) = delete;

  // The best match for a problem (complete): the best class, of that the user's before shared and
  // shipped.  strategy non-empty: the best measured tuning of that strategy.
  std::optional<Hint> find(const Problem& problem, const device::Device& device,
                           const std::string& strategy = {}) const;

  // Keeps the record in place of what answered the same question.  Fails where the disk refuses;
  // this process knows it all the same.
  Status add(const Record& record);

  // Every readable record, by environment and key.
  struct Listed {
    std::shared_ptr<const Record> record;
    Source source;
    std::string path;  // empty: shipped
  };
  std::vector<Listed> list() const;

  // Reads the directories anew: other processes' records are seen from then on.
  void reload();

  // Grows with every change that find() may answer differently for.
  std::uint64_t generation() const noexcept;

  const std::string& directory() const noexcept;
  // Whether add() keeps records there, too: not where mode or a missing home forbids it, or others
  // may write the directory.
  bool keeps() const noexcept;
  // Why the directory is neither read nor written (base/trust.hpp); empty: it may be.
  const std::string& distrusted() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The process's wisdom for these directories: the same object for the same ones.
std::shared_ptr<Wisdom> shared_wisdom(const std::string& directory, const std::string& cache_dir,
                                      base::env::CacheMode mode = base::env::cache_mode());

// Text of JSON lines, one a record; several such files may be put one behind the other.
std::string export_lines(const std::vector<Wisdom::Listed>& records);

struct Import {
  int added = 0;
  int kept = 0;                      // there was a newer one of the same question
  std::vector<std::string> refused;  // "line 3: ..."
};
// All or nothing: with one line refused nothing is added, unless `lenient`, which passes over it.
// merge: of two answers to one question the newer wins.
Result<Import> import_lines(std::string_view text, Wisdom& into, bool lenient = false);

struct Fault {
  std::string path, why;
  // Else it may be sound: another version of the library wrote it, or it cannot be read now.
  bool damaged = true;
};
// Every file of the user's directory that is no sound record, and what of it cannot be read.
std::vector<Fault> verify(const Wisdom& wisdom);

// Removes from the user's directory the records of other templates or compilers (stale), and of
// the devices named; and the journals of such searches, but for those that are being written.
struct Prune {
  bool stale = false;    // of other templates or compilers than `now`
  bool damaged = false;  // verify()'s faults that are damaged
  std::string device;    // of this device's name; empty: none
  bool all = false;
};
struct Pruned {
  int records = 0, journals = 0;
};
Result<Pruned> prune(Wisdom& wisdom, const Prune& what, const Environment& now);

}  // namespace kda::tune
