// Several processes, and forked ones, on one directory.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <fstream>
#include <thread>

#include "base/file.hpp"
#include "cache/build_lock.hpp"
#include "cache/entries.hpp"
#include "cache/layout.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace file = kda::base::file;
using kda::Result;
using kda::cache::BuildLocks;
using kda::cache::Cache;
using kda::cache::Entry;
using kda::cache::Origin;
using kda::test::Child;
using kda::test::contains;
using kda::test::entry_for;
using kda::test::Environment;
using kda::test::fresh_origin_of;
using kda::test::in_child;
using kda::test::key_for;
using kda::test::origin_of;
using kda::test::Scratch;
using kda::test::Warnings;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A build that takes a while and leaves a mark.
Result<Entry> slow_build(const std::string& marks) {
  std::ofstream(marks, std::ios::app) << "built by " + std::to_string(::getpid()) + "\n"
                                      << std::flush;
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  return entry_for("a");
}

int lines_of(const std::string& path) {
  std::ifstream in(path);
  int lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  return lines;
}

}  // namespace

TEST_CASE("eight processes of eight threads that want one kernel build it once") {
  const Scratch scratch;
  const std::string marks = scratch / "marks", root = scratch / "kda";
  std::deque<Child> children;
  for (int i = 0; i < 8; ++i) {
    children.emplace_back([&] {
      Cache cache(root);
      std::atomic<int> good = 0;
      std::vector<std::thread> threads;
      for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&] {
          const auto found = cache.get(key_for("a"), [&] { return slow_build(marks); });
          if (found && found->entry->cubin == entry_for("a").cubin) ++good;
        });
      }
      for (std::thread& thread : threads) thread.join();
      return good == 8 ? 0 : 1;
    });
  }
  for (Child& child : children) CHECK(child.wait() == 0);
  CHECK(lines_of(marks) == 1);
  CHECK(fresh_origin_of(root) == Origin::disk);
}

TEST_CASE("a holder that is stopped is waited for, named, and passed by") {
  const Scratch scratch;
  Child holder([&] {
    Cache cache(scratch.path());
    (void)cache.get(key_for("a"), []() -> Result<Entry> {
      ::raise(SIGSTOP);
      return entry_for("a");
    });
    return 0;
  });
  REQUIRE(holder.wait_for_stop());
  const Environment patience("KDA_LOCK_TIMEOUT", "1");
  const Warnings warnings;
  const auto start = Clock::now();
  CHECK(fresh_origin_of(scratch.path()) == Origin::built);
  CHECK(seconds_since(start) >= 1);
  CHECK(seconds_since(start) < 20);
  REQUIRE(warnings.texts.size() == 1);
  CHECK_THAT(warnings.texts[0], contains("process " + std::to_string(holder.id()) + " on "));
  holder.signal(SIGCONT);
  CHECK(holder.wait() == 0);
  CHECK(fresh_origin_of(scratch.path()) == Origin::disk);
}

// pytorch#189339: a lock that was a file outlived the SIGKILL of its owner.
TEST_CASE("a holder that is killed frees its lock at once") {
  const Scratch scratch;
  Child holder([&] {
    Cache cache(scratch.path());
    (void)cache.get(key_for("a"), []() -> Result<Entry> {
      ::raise(SIGSTOP);
      return entry_for("a");
    });
    return 0;
  });
  REQUIRE(holder.wait_for_stop());
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    holder.signal(SIGKILL);
  });
  const auto start = Clock::now();
  CHECK(fresh_origin_of(scratch.path()) == Origin::built);
  CHECK(seconds_since(start) < 15);  // of KDA_LOCK_TIMEOUT's 30
  killer.join();
  CHECK(holder.wait() == 128 + SIGKILL);
}

TEST_CASE("a wait ends when the entry is there, lock or not") {
  const Scratch scratch;
  Child holder([&] {
    BuildLocks locks(scratch.path());
    const auto held = locks.acquire("ab12", [] { return false; });
    ::raise(SIGSTOP);
    return held ? 0 : 1;
  });
  REQUIRE(holder.wait_for_stop());
  BuildLocks locks(scratch.path());
  int asked = 0;
  CHECK(locks.acquire("ab34", [&] { return ++asked == 3; }) == nullptr);
  CHECK(asked == 3);
  CHECK(locks.acquire("cd12", [] { return false; }) != nullptr);  // another lock
}

TEST_CASE("threads of a process share a lock, and the last lets it go") {
  const Scratch scratch;
  BuildLocks locks(scratch.path()), others(scratch.path());
  const auto never = [] { return false; };
  const auto at_once = [] { return true; };
  auto one = locks.acquire("ab12", never);
  auto two = locks.acquire("ab34", never);
  CHECK(one == two);
  CHECK(others.acquire("ab12", at_once) == nullptr);
  one = nullptr;
  CHECK(others.acquire("ab12", at_once) == nullptr);
  two = nullptr;
  CHECK(others.acquire("ab12", at_once) != nullptr);
}

// The parent's lock is none of its child's, which has the same object: both would build.
TEST_CASE("a child that wants the lock its parent holds waits as another process does") {
  const Scratch scratch;
  BuildLocks locks(scratch.path());
  const auto held = locks.acquire("ab12", [] { return false; });
  REQUIRE(held);
  CHECK(in_child([&] {
          bool waited = false;
          const auto own = locks.acquire("ab12", [&] { return waited = true; });
          return waited && own == nullptr ? 0 : 1;
        }) == 0);
  CHECK(locks.acquire("ab12", [] { return true; }) == held);
}

TEST_CASE("a lock's directory that cannot be had costs nothing but the lock") {
  BuildLocks nowhere("/dev/null/kda/locks"), none("");
  CHECK(nowhere.acquire("ab", [] { return false; }) == nullptr);
  CHECK(none.acquire("ab", [] { return false; }) == nullptr);
}

// cudf#1245, cuCascade#138, risc0#1370
TEST_CASE("a child forked while a thread of its parent builds does not wait for that thread") {
  const Scratch scratch;
  Cache cache(scratch.path());
  std::atomic<bool> building = false, done = false;
  std::thread builder([&] {
    (void)cache.get(key_for("a"), [&]() -> Result<Entry> {
      building = true;
      while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return entry_for("a");
    });
  });
  while (!building) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Environment patience("KDA_LOCK_TIMEOUT", "1");
  CHECK(in_child([&] { return origin_of(cache, "a") == Origin::built ? 0 : 1; }) == 0);
  CHECK(in_child([&] { return origin_of(cache, "b") == Origin::built ? 0 : 1; }) == 0);
  done = true;
  builder.join();
  CHECK(origin_of(cache, "a") == Origin::memory);
}

TEST_CASE("children forked while threads are busy with the cache can use it") {
  const Scratch scratch;
  Cache cache(scratch.path());
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) (void)origin_of(cache, std::to_string((i + t) % 50));
    });
  }
  for (int i = 0; i < 20; ++i) {
    const int code = in_child([&] {
      (void)origin_of(cache, "1");
      (void)kda::cache::shared_cache(scratch.path());
      return origin_of(cache, "child " + std::to_string(i)) == Origin::built ? 0 : 1;
    });
    CHECK(code == 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}
