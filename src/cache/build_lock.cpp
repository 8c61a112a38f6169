#include "cache/build_lock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <thread>
#include <utility>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/log.hpp"

namespace kda::cache {
namespace {

namespace file = base::file;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{1}, kLongestPause{50};
constexpr milliseconds kQuiet{1000};  // a wait longer than this is told

}  // namespace

BuildLocks::BuildLocks(std::string directory) : directory_(std::move(directory)) {}

BuildLocks::Held BuildLocks::try_acquire(const std::string& path, int& error) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<file::Lock>& shared = shared_[path];
  // Not one of a thread of the parent, whose lock is not this process's.
  if (Held held = shared.lock(); held && held->held()) return held;
  auto held = std::make_shared<file::Lock>();
  error = held->try_acquire(path);
  if (error != 0) return nullptr;
  shared = held;
  return held;
}

BuildLocks::Held BuildLocks::acquire(const std::string& digest,
                                     const std::function<bool()>& arrived) {
  if (directory_.empty() || file::make_directories(directory_) != 0 ||
      !file::locks_work(directory_)) {
    return nullptr;
  }
  const std::string path = fmt::format("{}/{}.lock", directory_, digest.substr(0, 2));
  const auto start = Clock::now();
  const std::chrono::seconds patience(base::env::integer("KDA_LOCK_TIMEOUT", 30));
  bool told = false;
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    int error = 0;
    if (Held held = try_acquire(path, error)) return held;
    if (error != EWOULDBLOCK) {
      base::log::debug(fmt::format("cache: no lock {}: {}", path, file::describe(error)));
      return nullptr;
    }
    if (arrived()) return nullptr;
    const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    if (waited >= patience) {
      base::log::warn(
          fmt::format("cache: {} has held {} for {} s (KDA_LOCK_TIMEOUT); compiling beside it",
                      file::holder_of(path), path, patience.count()));
      return nullptr;
    }
    if (!told && waited > kQuiet) {
      base::log::info(
          fmt::format("cache: waiting for {}, which holds {}", file::holder_of(path), path));
      told = true;
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace kda::cache
