#include "base/fork.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

namespace kda::base {
namespace {

std::atomic<unsigned> generation{0};

using Row = std::pair<ForkRank, std::shared_ptr<ForkMutex::Owned>>;

// This thread's.
thread_local int held = 0;
thread_local void (*then_call)() noexcept = nullptr;

struct Registry {
  std::mutex mutex;       // taken last, as a ForkMutex is made where others are held
  std::vector<Row> all;   // by rank
  unsigned changes = 0;   // of all
  std::vector<Row> held;  // by a fork
};

Registry& registry() {
  static auto* registry = new Registry;  // leaked: usable during exit; made at load, below
  return *registry;
}

void unlock(const std::vector<Row>& rows) {
  for (const auto& [rank, owned] : rows) owned->mutex.unlock();
}

// All that there are and this thread has not, once none was added meanwhile.
void before() {
  Registry& from = registry();
  for (;;) {
    from.mutex.lock();
    const unsigned seen = from.changes;
    std::vector<Row> rows = from.all;
    from.mutex.unlock();
    std::erase_if(rows, [](const Row& row) {
      return row.second->owner.load() == std::this_thread::get_id();
    });
    for (const auto& [rank, owned] : rows) owned->mutex.lock();
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

// At load, before there is a thread that a fork could leave half way here.
[[maybe_unused]] const bool follows_forks = [] {
  registry();
  return ::pthread_atfork(before, after, in_child) == 0;
}();

}  // namespace

ForkMutex::ForkMutex(ForkRank rank) : owned_(std::make_shared<Owned>()) {
  Registry& to = registry();
  const std::lock_guard lock(to.mutex);
  const Row row{rank, owned_};
  to.all.insert(std::upper_bound(to.all.begin(), to.all.end(), row,
                                 [](const Row& a, const Row& b) { return a.first < b.first; }),
                row);
  ++to.changes;
}

ForkMutex::~ForkMutex() {
  Registry& to = registry();
  const std::lock_guard lock(to.mutex);
  std::erase_if(to.all, [this](const Row& row) { return row.second == owned_; });
  ++to.changes;
}

void ForkMutex::lock() {
  owned_->mutex.lock();
  owned_->owner = std::this_thread::get_id();
  ++held;
}

void ForkMutex::unlock() {
  owned_->owner = std::thread::id();
  owned_->mutex.unlock();
  if (--held > 0 || then_call == nullptr) return;
  std::exchange(then_call, nullptr)();
}

bool holds_a_fork_mutex() noexcept { return held > 0; }
void when_free(void (*then)() noexcept) noexcept { then_call = then; }

unsigned forks() noexcept { return generation; }

}  // namespace kda::base
