#include "cache/sweep.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/file.hpp"
#include "base/file_lock.hpp"
#include "base/trust.hpp"
#include "cache/layout.hpp"

namespace kda::cache {
namespace {

namespace file = base::file;

struct Row {
  std::string path;
  std::size_t bytes;
  std::int64_t changed;
};

std::int64_t distance(std::int64_t changed, std::int64_t now) {
  return now > changed ? now - changed : changed - now;
}

std::vector<Row> rows_in(const std::vector<std::string>& paths) {
  std::vector<Row> rows;
  for (const std::string& path : paths) {
    file::Info info;
    if (file::info(path, info, true) == 0) rows.push_back({path, info.bytes, info.changed});
  }
  return rows;
}

// Unless somebody used it since it was listed.
bool is_unused(const Row& row) {
  file::Info info;
  return file::info(row.path, info, true) == 0 && info.changed == row.changed;
}
bool remove_unused(const Row& row) { return is_unused(row) && file::remove(row.path) == 0; }

// What was set aside may be a directory.
bool remove_all_unused(const Row& row) {
  if (!is_unused(row)) return false;
  std::error_code error;
  return std::filesystem::remove_all(row.path, error) > 0 && !error;
}

void remove_leftovers(const std::vector<std::string>& paths, std::int64_t now, Swept& swept) {
  for (const Row& row : rows_in(paths)) {
    if (is_worn(row.changed, now, kLeftoverSeconds) && remove_all_unused(row)) {
      ++swept.leftovers;
    }
  }
}

}  // namespace

bool is_worn(std::int64_t changed, std::int64_t now, std::int64_t seconds) {
  return distance(changed, now) > seconds;
}

Swept sweep(const std::string& root, std::int64_t cap, std::int64_t target,
            std::int64_t young_seconds) {
  Swept swept;
  const Layout at(root);
  // Whoever may write a folder there may change it for a link between a look and a removal.
  for (const char* folder : {"/v1", "/wisdom", "/wisdom/v1"}) {
    swept.distrusted = base::distrust(root + folder);
    if (!swept.distrusted.empty()) return swept;
  }
  file::Lock lock;  // where it cannot be had for another reason, as on filesystems without locks
  if (file::make_directories(at.locks()) == 0 && file::locks_work(at.locks()) &&
      lock.try_acquire(at.locks() + "/sweep.lock") == EWOULDBLOCK) {
    swept.busy = true;
    return swept;
  }
  const std::int64_t now = file::now();
  remove_leftovers(at.temporaries(), now, swept);
  remove_leftovers(at.set_aside(), now, swept);
  swept.distrusted = at.link_trouble();
  if (!swept.distrusted.empty()) return swept;

  std::vector<Row> rows = rows_in(at.entries());
  for (const Row& row : rows) swept.kept_bytes += row.bytes;
  if (swept.kept_bytes <= static_cast<std::size_t>(cap)) return swept;
  std::sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    return distance(a.changed, now) > distance(b.changed, now);
  });
  for (const Row& row : rows) {
    if (swept.kept_bytes <= static_cast<std::size_t>(target)) break;
    if (!is_worn(row.changed, now, young_seconds)) break;  // and so are all that follow
    if (!remove_unused(row)) continue;
    ++swept.entries;
    swept.bytes += row.bytes;
    swept.kept_bytes -= row.bytes;
  }
  return swept;
}

}  // namespace kda::cache
