#include "base/fork.hpp"

#include <unistd.h>

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

// The bug: a fork held the list of mutexes while it waited for one of them, whose holder made its
// first of another kind, for which it wanted the list: both waited for ever (the first plan of one
// thread beside a fork of another).
TEST_CASE("a mutex may be made where another is held, whoever forks") {
  ::alarm(60);
  for (int i = 0; i < 20; ++i) {
    ForkMutex outer(ForkRank::toolchain);
    std::atomic<bool> holds = false, forked = false;
    std::thread holder([&] {
      {
        const std::lock_guard one(outer);
        holds = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ForkMutex inner(ForkRank::nvrtc);
        const std::lock_guard two(inner);
      }
      while (!forked) std::this_thread::yield();
    });
    while (!holds) std::this_thread::yield();
    CHECK(in_child([&] {
            const std::lock_guard one(outer);
            return 0;
          }) == 0);
    forked = true;
    holder.join();
  }
  ::alarm(0);
}

TEST_CASE("a child knows that it is one") {
  const unsigned here = forks();
  { const ForkMutex any(ForkRank::cache); }
  CHECK(in_child([&] { return forks() == here + 1 ? 0 : 1; }) == 0);
  CHECK(forks() == here);
}
