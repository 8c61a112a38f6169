#include "base/fork.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "support/catch.hpp"
#include "support/process.hpp"

using kda::base::ForkMutex;
using kda::base::ForkRank;
using kda::base::forks;
using kda::test::in_child;

TEST_CASE("a mutex that a thread holds at a fork is free in the child") {
  ForkMutex outer(ForkRank::caches), inner(ForkRank::cache);
  std::atomic<bool> stop = false;
  std::thread holder([&] {
    while (!stop) {
      const std::lock_guard one(outer);
      const std::lock_guard two(inner);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  for (int i = 0; i < 10; ++i) {
    const int code = in_child([&] {
      const std::lock_guard one(outer);
      const std::lock_guard two(inner);
      return 0;
    });
    CHECK(code == 0);
  }
  stop = true;
  holder.join();
}

TEST_CASE("a child knows that it is one") {
  const unsigned here = forks();
  { const ForkMutex any(ForkRank::cache); }
  CHECK(in_child([&] { return forks() == here + 1 ? 0 : 1; }) == 0);
  CHECK(forks() == here);
}
