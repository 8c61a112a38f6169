// A directory of entries.  Nothing here fails a caller: trouble is a miss, said once in the log.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "base/env.hpp"
#include "cache/build_lock.hpp"
#include "cache/cache.hpp"
#include "cache/key.hpp"
#include "cache/layout.hpp"

namespace kda::cache {

class Store {
 public:
  // The user's own directory.  Keeps nothing where root is empty, the mode is off, or the directory
  // is not to be trusted (base/trust), which is logged.
  Store(std::string root, base::env::CacheMode mode);
  // One that the user named to be read only: its owner is the user's concern.
  struct Declared {};
  Store(Declared, std::string root);

  const std::string& root() const noexcept { return root_; }

  std::optional<Entry> find(const Key& key);
  // Before an entry is built; see BuildLocks.
  BuildLocks::Held lock(const Key& key, const std::function<bool()>& arrived);
  // And keeps the directory within KDA_CACHE_MAX_SIZE.
  void publish(const Key& key, const Entry& entry);
  // What keeps entries that may be there from being read, "<directory>: <why>"; empty: nothing.
  std::string trouble() const;

 private:
  Store(std::string root, bool writes, bool declared);

  void set_aside(const std::string& path, const std::string& digest, const std::string& why);
  void sweep_after(std::size_t bytes);
  int write_with_room(const std::string& path, const std::string& contents);
  void warn_once(std::atomic<bool>& warned, const std::string& text);

  std::string root_;
  Layout at_;
  bool writes_, declared_;
  BuildLocks locks_;
  std::atomic<std::size_t> unswept_;  // bytes published since the last look at them all
  std::atomic<bool> warned_bad_{false};
  std::atomic<bool> warned_read_{false};
  std::atomic<bool> warned_write_{false};
  std::atomic<bool> warned_sweep_{false};
  std::atomic<bool> made_room_{false};
  std::atomic<int> unreadable_{0};  // why an entry could not be read
};

}  // namespace kda::cache
