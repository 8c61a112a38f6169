#include "base/fork.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace kda::base {
namespace {

std::atomic<unsigned> generation{0};

struct Registry {
  std::mutex mutex;
  std::vector<std::pair<ForkRank, std::mutex*>> all;  // by rank
};

Registry& registry() {
  static auto* registry = new Registry;  // leaked: usable during exit
  return *registry;
}

void before() {
  registry().mutex.lock();
  for (const auto& [rank, mutex] : registry().all) mutex->lock();
}

void after() {
  for (const auto& [rank, mutex] : registry().all) mutex->unlock();
  registry().mutex.unlock();
}

void in_child() {
  ++generation;
  after();
}

}  // namespace

ForkMutex::ForkMutex(ForkRank rank) : rank_(rank) {
  static const int registered = ::pthread_atfork(before, after, in_child);
  (void)registered;
  Registry& to = registry();
  const std::lock_guard lock(to.mutex);
  const std::pair<ForkRank, std::mutex*> row{rank_, &mutex_};
  to.all.insert(std::upper_bound(to.all.begin(), to.all.end(), row,
                                 [](const auto& a, const auto& b) { return a.first < b.first; }),
                row);
}

ForkMutex::~ForkMutex() {
  Registry& to = registry();
  const std::lock_guard lock(to.mutex);
  std::erase_if(to.all, [this](const auto& row) { return row.second == &mutex_; });
}

unsigned forks() noexcept { return generation; }

}  // namespace kda::base
