// Compiled kernels: memory over disk.  Bytes in, bytes out; a bad entry is a miss.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/env.hpp"
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

class Bundle;

enum class Origin { memory, disk, bundle, built };
const char* name_of(Origin origin) noexcept;

struct Found {
  std::shared_ptr<const Entry> entry;
  Origin origin;
};

// Any number of threads at once, and of processes.  One build a key is in flight in the process
// and, where locks can be had, on the machine; its error reaches every waiter and is not
// remembered.
class Cache {
 public:
  // directory empty: $KDA_CACHE_DIR, else $XDG_CACHE_HOME/kda, else ~/.cache/kda, else memory only.
  // Behind it come the directories and bundles of KDA_CACHE_PATH, to read only.  Trouble with any
  // of them is logged once and never fails a call.
  explicit Cache(const std::string& directory, base::env::CacheMode mode = base::env::cache_mode());
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  Result<Found> get(const Key& key, const std::function<Result<Entry>()>& build);

  // What get() would find; never builds or waits.
  std::optional<Found> find(const Key& key);

  // In the bundles, whichever compiler made it, if without NVRTC_APPEND_FLAGS: the key need not
  // name one.  Of several compilers' that of `compiler`, which is asked only then, else the first.
  // Nothing where KDA_STRICT_TOOLCHAIN or NVRTC_APPEND_FLAGS ask for this machine's own code; get()
  // looks there too, for the whole key.
  std::optional<Found> find_shipped(const Key& key,
                                    const std::function<std::string()>& compiler = {});

  // Where entries live; empty when memory only.
  const std::string& directory() const noexcept;
  base::env::CacheMode mode() const noexcept;
  // KDA_CACHE_PATH's directories, and the bundles there and in the program.
  std::vector<std::string> more_directories() const;
  std::vector<std::shared_ptr<const Bundle>> bundles() const;
  // Why parts of KDA_CACHE_PATH are not read, or what the directories hold cannot be, a sentence
  // each: for who misses a kernel.
  std::vector<std::string> troubles() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The process's cache for a directory and mode: the same object for the same words.
std::shared_ptr<Cache> shared_cache(const std::string& directory,
                                    base::env::CacheMode mode = base::env::cache_mode());

}  // namespace kda::cache
