// The cache directory at a glance: how much it holds, and what in it is damaged.
#pragma once

#include <cstddef>
#include <string>

namespace kda::tune_tool {

struct CacheHealth {
  std::string directory;   // empty: memory only
  std::string distrusted;  // then: why the library does not use the one that is named
  std::size_t entries = 0, bytes = 0;
  std::size_t damaged = 0;    // entries whose digest does not match; the library rebuilds those
  std::size_t set_aside = 0;  // damaged ones that it has met already
  std::string unreadable;     // what could not be looked into, and why
  std::string trouble;        // why the directory cannot be written; empty when it can, or need not
};

CacheHealth cache_health(const std::string& directory);

}  // namespace kda::tune_tool
