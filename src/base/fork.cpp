#include "base/fork.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

namespace kda::base {
namespace {

std::atomic<unsigned> generation{0};

using Row = std::pair<ForkRank, std::shared_ptr<std::mutex>>;

struct Registry {
  std::mutex mutex;       // taken last, as a ForkMutex is made where others are held
  std::vector<Row> all;   // by rank
  unsigned changes = 0;   // of all
  std::vector<Row> held;  // by a fork
};

Registry& registry() {
  static auto* registry = new Registry;  // leaked: usable during exit
  return *registry;
}

void unlock(const std::vector<Row>& rows) {
  for (const auto& [rank, mutex] : rows) mutex->unlock();
}

// All that there are, once none was added meanwhile.
void before() {
  Registry& from = registry();
  for (;;) {
    from.mutex.lock();
    const unsigned seen = from.changes;
    std::vector<Row> rows = from.all;
    from.mutex.unlock();
    for (const auto& [rank, mutex] : rows) mutex->lock();
    from.mutex.lock();
    if (from.changes == seen) {
      from.held = std::move(rows);
      return;
    }
    from.mutex.unlock();
    unlock(rows);
  }
}

void after() {
  Registry& from = registry();
  unlock(from.held);
  from.held.clear();
  from.mutex.unlock();
}

void in_child() {
  ++generation;
  after();
}

void follow_forks() noexcept {
  static const int registered = ::pthread_atfork(before, after, in_child);
  (void)registered;
}

}  // namespace

ForkMutex::ForkMutex(ForkRank rank) : mutex_(std::make_shared<std::mutex>()) {
  follow_forks();
  Registry& to = registry();
  const std::lock_guard lock(to.mutex);
  const Row row{rank, mutex_};
  to.all.insert(std::upper_bound(to.all.begin(), to.all.end(), row,
                                 [](const Row& a, const Row& b) { return a.first < b.first; }),
                row);
  ++to.changes;
}

ForkMutex::~ForkMutex() {
  Registry& to = registry();
  const std::lock_guard lock(to.mutex);
  std::erase_if(to.all, [this](const Row& row) { return row.second == mutex_; });
  ++to.changes;
}

unsigned forks() noexcept {
  follow_forks();
  return generation;
}

}  // namespace kda::base
