#include "tune/cache_health.hpp"

#include <fmt/format.h>
#include <unistd.h>

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
  if (const int error = file::make_directories(health.directory); error != 0) {
    health.trouble = fmt::format("it cannot be made: {}; set KDA_CACHE_DIR", file::describe(error));
  } else if (::access(health.directory.c_str(), W_OK) != 0) {
    health.trouble = "it cannot be written; set KDA_CACHE_DIR";
  }
  return health;
}

}  // namespace kda::tune_tool
