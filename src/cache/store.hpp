// The directory of entries.  Nothing here fails a caller: trouble is a miss, said once in the log.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "base/env.hpp"
#include "cache/cache.hpp"
#include "cache/key.hpp"

namespace kda::cache {

//   <root>/CACHEDIR.TAG              tells backups to pass
//   <root>/toolchain.txt             compile/toolchain's note
//   <root>/v1/objects/ab/ab12...kdo  an entry, named by its key's digest
//   <root>/v1/tmp/                   half-written ones
//   <root>/v1/bad/                   damaged ones, for a look
class Store {
 public:
  // An empty root: keeps nothing.
  Store(std::string root, base::env::CacheMode mode);

  const std::string& root() const noexcept { return root_; }

  std::optional<Entry> find(const Key& key);
  void publish(const Key& key, const Entry& entry);

 private:
  std::string path_of(const std::string& digest) const;
  void set_aside(const std::string& path, const std::string& digest, const std::string& why);
  void warn_once(std::atomic<bool>& warned, const std::string& text);

  std::string root_;
  bool writes_;
  std::atomic<bool> warned_bad_{false};
  std::atomic<bool> warned_read_{false};
  std::atomic<bool> warned_write_{false};
};

}  // namespace kda::cache
