#include "base/file_lock.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <string>

#include "base/fault.hpp"
#include "base/file.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace file = kda::base::file;
using kda::test::Child;
using kda::test::in_child;
using kda::test::run_case_apart;
using kda::test::Scratch;

// The bug: a child that was forked while a lock was held had a copy of its descriptor, so that the
// lock of a process that was killed lived as long as its children, and all others waited for it.
TEST_CASE("a lock goes with its holder, whoever was forked from it meanwhile") {
  const Scratch scratch;
  const std::string path = scratch.path() + "/lock";
  std::optional<file::Lock> lock(std::in_place);
  REQUIRE(lock->try_acquire(path) == 0);
  Child child([&] {
    if (lock->held()) return 1;  // it is the parent's
    ::raise(SIGSTOP);            // for as long as the parent likes
    return 0;
  });
  REQUIRE(child.wait_for_stop());
  file::Lock other;
  CHECK(other.try_acquire(path) == EWOULDBLOCK);
  lock.reset();
  CHECK(other.try_acquire(path) == 0);
}

TEST_CASE("apart: fork before any lock", "[.]") {
  ::alarm(20);
  CHECK(in_child([] { return 0; }) == 0);
}

// The bug: a child of a process that had taken no lock made the list of those that are held, while
// the fork still held the list of mutexes, and waited for itself.
TEST_CASE("a process that has taken no lock can be forked") {
  CHECK(run_case_apart("apart: fork before any lock", {}).code == 0);
}

TEST_CASE("a child that gives up what it has inherited takes nothing from its parent") {
  const Scratch scratch;
  const std::string path = scratch.path() + "/lock";
  file::Lock lock;
  REQUIRE(lock.try_acquire(path) == 0);
  CHECK(in_child([&] {
          file::Lock own;
          const int opened = own.try_acquire(scratch.path() + "/own");  // by the same descriptor
          lock.release();
          return opened == 0 && own.held() && own.try_acquire(path) == EWOULDBLOCK ? 0 : 1;
        }) == 0);
  file::Lock other;
  CHECK(other.try_acquire(path) == EWOULDBLOCK);
  CHECK(lock.held());
}

// Children close what held locks when they were forked, and nothing that took such a number since.
TEST_CASE("a child keeps the file whose descriptor was a lock's before") {
  const Scratch scratch;
  file::Lock lock;
  REQUIRE(lock.try_acquire(scratch / "lock") == 0);
  REQUIRE(file::publish(scratch.path(), scratch / "file", "") == 0);
  const int above = ::open((scratch / "file").c_str(), O_RDONLY | O_CLOEXEC);
  lock.release();
  const int again = ::open((scratch / "file").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(again >= 0);
  REQUIRE(again < above);  // the lock's number
  CHECK(in_child([&] { return ::fcntl(again, F_GETFD) >= 0 ? 0 : 1; }) == 0);
  (void)::close(again);
  (void)::close(above);
}

// The bug: the note that a lock's holder leaves for people who wait ended the process by SIGXFSZ
// where files may have no bytes.
TEST_CASE("a limit on file sizes costs a lock its note alone") {
  const Scratch scratch;
  const int code = in_child([&] {
    const rlimit none{0, 0};
    file::Lock lock;
    return ::setrlimit(RLIMIT_FSIZE, &none) == 0 && lock.try_acquire(scratch / "l") == 0 ? 0 : 1;
  });
  CHECK(code == 0);
}

namespace {
std::string taken_away;  // by its holder, between another's opening and locking it
}

TEST_CASE("a lock whose file is taken away while it is opened is that of the file there now") {
  const Scratch scratch;
  taken_away = scratch / "lock";
  kda::base::fault::hook() = [](const char* step) {
    if (std::string(step) == "flock" && !taken_away.empty()) {
      (void)::unlink(taken_away.c_str());
      taken_away.clear();
    }
    return 0;
  };
  file::Lock first, second;
  const int error = first.try_acquire(scratch / "lock");
  kda::base::fault::hook() = nullptr;
  REQUIRE(error == 0);
  CHECK(second.try_acquire(scratch / "lock") == EWOULDBLOCK);
}
