// Compiled kernels: memory over disk.  Bytes in, bytes out; a bad entry is a miss.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cache/key.hpp"
#include "compile/resources.hpp"
#include "kda/status.hpp"

namespace kda::cache {

struct Entry {
  std::string entry;   // the kernel's symbol
  std::string target;  // "sm_90a"
  std::string cubin;
  compile::Resources resources;
};

enum class Origin { memory, disk, built };
const char* name_of(Origin origin) noexcept;

struct Found {
  std::shared_ptr<const Entry> entry;
  Origin origin;
};

// Any number of threads at once.  One build a key is in flight in the process; its error reaches
// every waiter and is not remembered.
class Cache {
 public:
  // directory empty: $KDA_CACHE_DIR, else $XDG_CACHE_HOME/kda, else ~/.cache/kda, else memory only.
  // Trouble with the directory is logged once and never fails a call.
  explicit Cache(const std::string& directory);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  Result<Found> get(const Key& key, const std::function<Result<Entry>()>& build);

  // Where entries live; empty when memory only.
  const std::string& directory() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The process's cache for a directory: the same object for the same directory.
std::shared_ptr<Cache> shared_cache(const std::string& directory);

}  // namespace kda::cache
