// Where tests make the world fail: each step by which base/file reads or writes asks here first;
// what only finds out where something is (realpath, getcwd), or cleans up, does not.
#pragma once

#include <atomic>

namespace kda::base::fault {

// Told the step that comes next ("open", "write", "rename", ...): 0 lets it go on, an errno fails
// it with that; a hook may as well end the process.
using Hook = int (*)(const char* step);

inline std::atomic<Hook>& hook() {
  static std::atomic<Hook> hook{nullptr};
  return hook;
}

inline int at(const char* step) {
  const Hook wanted = hook().load(std::memory_order_relaxed);
  return wanted == nullptr ? 0 : wanted(step);
}

}  // namespace kda::base::fault
