// A loop over all cores: independent iterations, taken one at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace kda::reference {

inline unsigned cores() { return std::max(1U, std::thread::hardware_concurrency()); }

// body(i) for each i in [0, count), in no order.  body must not throw.
template <class Body>
void parallel_for(std::int64_t count, const Body& body) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::thread> others;
  const auto threads = std::min<std::int64_t>(count, cores());
  for (std::int64_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace kda::reference
