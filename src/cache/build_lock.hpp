// One process at a time builds a kernel, as far as that can be had.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/file_lock.hpp"
#include "base/fork.hpp"

namespace kda::cache {

// 256 locks, one for all keys whose digest begins with the same two digits.  Threads of a process
// share one: among them the cache lets only one build a key anyway.
class BuildLocks {
 public:
  using Held = std::shared_ptr<base::file::Lock>;

  // The lock files' directory, made when needed; empty: there are none.
  explicit BuildLocks(std::string directory);

  // Waits while another process holds the digest's lock, KDA_LOCK_TIMEOUT at most and not past the
  // moment when `arrived`, asked now and then, says yes.  Null where none was had: to build twice
  // is waste and no harm.
  Held acquire(const std::string& digest, const std::function<bool()>& arrived);

 private:
  Held try_acquire(const std::string& path, int& error);

  std::string directory_;
  base::ForkMutex mutex_{base::ForkRank::locks};  // guards the rest
  std::map<std::string, std::weak_ptr<base::file::Lock>> shared_;
};

}  // namespace kda::cache
