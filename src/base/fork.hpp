// Mutexes that fork() does not leave locked: a child has one thread, and what another one held in
// the parent nobody would ever let go.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

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
  told,
  files
};

class ForkMutex {
 public:
  explicit ForkMutex(ForkRank rank);
  ~ForkMutex();
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock();
  void unlock();

  // The mutex itself, and who has it: a thread that forks while it holds one, as cuInit does to
  // have device nodes made, does not wait for itself.
  struct Owned {
    std::mutex mutex;
    std::atomic<std::thread::id> owner;
  };

 private:
  std::shared_ptr<Owned> owned_;  // a fork may be about to take it where this ends
};

// Whether this thread holds one.  Others' code, which may wait for a thread that forks, is not to
// be called then.
bool holds_a_fork_mutex() noexcept;
// Has this thread call it once, when it has let go of its last one.
void when_free(void (*then)() noexcept) noexcept;

// How many forks lie between this process and the one that first asked or made a mutex.  What
// threads of the parent had begun, threads of this process will not end.
unsigned forks() noexcept;

}  // namespace kda::base
