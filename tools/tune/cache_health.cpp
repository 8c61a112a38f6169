#include "tune/cache_health.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include "base/digest.hpp"
#include "base/env.hpp"
#include "base/file.hpp"
#include "base/trust.hpp"
#include "cache/entry_file.hpp"
#include "cache/layout.hpp"

namespace kda::tune_tool {
namespace {

namespace file = base::file;

constexpr std::size_t kDigestDigits = 32;  // the end of an entry's file: see cache/entry_file.hpp

bool whole(std::string_view contents) {
  if (contents.size() < kDigestDigits) return false;
  const std::string_view covered = contents.substr(0, contents.size() - kDigestDigits);
  return base::digest(covered) == contents.substr(covered.size());
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  if (file::list(directory, names) != 0) names.clear();
  return names;
}

// 0 where it could be made, or errno; nothing is left of the trial.
int try_to_make(std::string directory) {
  file::Info info;
  std::string above = directory;
  while (above.size() > 1) {
    above.resize(std::max<std::size_t>(above.rfind('/'), 1));
    if (file::info(above, info) != ENOENT) break;
    directory = above;
  }
  if (::mkdir(directory.c_str(), 0700) != 0) return errno;
  ::rmdir(directory.c_str());
  return 0;
}

}  // namespace

CacheHealth cache_health(const std::string& directory) {
  CacheHealth health;
  if (base::env::cache_mode() == base::env::CacheMode::off) return health;
  const std::string named = directory.empty() ? base::env::cache_root() : file::absolute(directory);
  health.distrusted = base::distrust(named);
  if (named.empty() || !health.distrusted.empty()) return health;
  health.directory = named;
  health.unreadable = cache::Layout(health.directory).trouble();
  const std::string objects = health.directory + "/v1/objects";
  for (const std::string& folder : names_in(objects)) {
    const std::string inside = file::join(objects, folder);
    for (const std::string& name : names_in(inside)) {
      std::string contents;
      ++health.entries;
      if (file::read(file::join(inside, name), cache::kMaxFileBytes, contents) != 0 ||
          !whole(contents)) {
        ++health.damaged;
      }
      health.bytes += contents.size();
    }
  }
  health.set_aside = names_in(health.directory + "/v1/bad").size();
  if (base::env::cache_mode() != base::env::CacheMode::read_write) return health;
  file::Info info;
  if (file::info(health.directory, info) == ENOENT) {
    if (const int error = try_to_make(health.directory)) {
      health.trouble =
          fmt::format("it cannot be made: {}; set KDA_CACHE_DIR", file::describe(error));
    }
  } else if (!info.directory || ::access(health.directory.c_str(), W_OK) != 0) {
    health.trouble = "it cannot be written; set KDA_CACHE_DIR";
  }
  return health;
}

}  // namespace kda::tune_tool
