// All that a cache directory holds, for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/entry_file.hpp"

namespace kda::cache {

struct Filed {
  std::string path;
  std::string trouble;      // why it is no entry; empty when it is whole
  bool unreadable = false;  // the trouble is that it could not be read; it may be whole
  std::size_t bytes = 0;
  std::int64_t used = 0;  // seconds since the epoch, to the hour: sweep.hpp
  Stored stored;          // of a whole one, but for its cubin: a cache may hold a gigabyte of those
};

// Every entry, by path.  An entry under another name than its key's is damaged.
std::vector<Filed> survey(const std::string& root);

}  // namespace kda::cache
