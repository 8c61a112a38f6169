// Mutexes that fork() does not leave locked: a child has one thread, and what another one held in
// the parent nobody would ever let go.
#pragma once

#include <memory>
#include <mutex>

namespace kda::base {

// In the order in which one may be taken while another is held: a fork takes all of them so.
enum class ForkRank {
  plans,
  wisdoms,
  wisdom,
  caches,
  cache,
  locks,
  shipped,
  toolchain,
  nvrtc,
  driver,
  told
};

class ForkMutex {
 public:
  explicit ForkMutex(ForkRank rank);
  ~ForkMutex();
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock() { mutex_->lock(); }
  void unlock() { mutex_->unlock(); }

 private:
  std::shared_ptr<std::mutex> mutex_;  // a fork may be about to take it where this ends
};

// How many forks lie between this process and the one that first asked or made a mutex.  What
// threads of the parent had begun, threads of this process will not end.
unsigned forks() noexcept;

}  // namespace kda::base
