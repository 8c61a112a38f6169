#include "base/fork.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/lazy.hpp"
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

// The bug: cuInit may fork (nvidia-modprobe makes device nodes), and its caller holds the driver's
// mutex, for which the fork then waited for ever: the first plan of a user before there were nodes.
TEST_CASE("a thread may fork while it holds a mutex, and goes on in the child, too") {
  ForkMutex outer(ForkRank::driver), inner(ForkRank::told);
  ::alarm(60);
  {
    const std::lock_guard one(outer);
    CHECK(in_child([&] {
            const std::lock_guard two(inner);
            return kda::base::holds_a_fork_mutex() ? 0 : 1;
          }) == 0);
  }
  const std::lock_guard again(outer);
  ::alarm(0);
}

// The bug: the guard of a static variable in a function stayed shut in a child whose parent had a
// thread behind it, and the child's first plan waited for it for ever (a thread that makes the
// first plan beside workers that are forked).
TEST_CASE("what is made at its first use can be made in a child whose parent had begun") {
  static constinit kda::base::Lazy<int> value;
  std::atomic<bool> begun = false, may_end = false;
  std::thread maker([&] {
    value.get([&] {
      begun = true;
      while (!may_end) std::this_thread::yield();
      return new int(1);
    });
  });
  while (!begun) std::this_thread::yield();
  CHECK(in_child([] { return value.get([] { return new int(2); }) == 2 ? 0 : 1; }) == 0);
  CHECK(value.get([] { return new int(3); }) == 3);
  may_end = true;
  maker.join();
  CHECK(value.get() == 3);  // the first that was done
}
