// What a process makes at its first use and never frees, so that it can be used during exit.
#pragma once

#include <atomic>
#include <utility>

namespace kda::base {

// Of threads that come first at once each makes one, and the first that is done stays.  The guard
// of a static variable in a function would be shut for ever in a child of fork() whose parent had a
// thread behind it.
template <class T>
class Lazy {
 public:
  constexpr Lazy() = default;
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;

  T& get() {
    return get([] { return new T(); });
  }
  // make(): a new T.
  template <class Make>
  T& get(const Make& make) {
    if (T* known = value_.load(std::memory_order_acquire)) return *known;
    T* fresh = make();
    T* known = nullptr;
    if (value_.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
    return *known;
  }

 private:
  std::atomic<T*> value_{nullptr};
};

}  // namespace kda::base
