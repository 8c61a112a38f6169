#include "base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/file_lock.hpp"
#include "base/share.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

namespace file = kda::base::file;
using kda::test::Scratch;

namespace {

std::string contents_of(const std::string& path) {
  std::string text;
  REQUIRE(file::read(path, 1 << 20, text) == 0);
  return text;
}

}  // namespace

TEST_CASE("errors read as the system says them") {
  CHECK(file::describe(ENOENT) == "No such file or directory (ENOENT)");
}

TEST_CASE("publish replaces a file whole and leaves nothing aside") {
  const Scratch scratch;
  const std::string path = scratch / "f";
  REQUIRE(file::publish(scratch.path(), path, "first") == 0);
  CHECK(contents_of(path) == "first");
  REQUIRE(file::publish(scratch.path(), path, std::string("\0two", 4)) == 0);
  CHECK(contents_of(path) == std::string("\0two", 4));
  std::vector<std::string> names;
  REQUIRE(file::list(scratch.path(), names) == 0);
  CHECK(names == std::vector<std::string>{"f"});
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("a publish that cannot rename takes its temporary away") {
  const Scratch scratch;
  REQUIRE(file::make_directories(scratch / "taken/by") == 0);
  CHECK(file::publish(scratch.path(), scratch / "taken", "x") != 0);
  std::vector<std::string> names;
  REQUIRE(file::list(scratch.path(), names) == 0);
  CHECK(names == std::vector<std::string>{"taken"});
}

TEST_CASE("a directory that takes no files is an error and nothing is published") {
  std::string text;
  const Scratch scratch;
  CHECK(file::publish("/proc/self", scratch / "f", "x") != 0);
  CHECK(file::read(scratch / "f", 10, text) == ENOENT);
}

TEST_CASE("read takes plain files of a sane size and nothing else") {
  const Scratch scratch;
  std::string text;
  REQUIRE(file::publish(scratch.path(), scratch / "f", "12345") == 0);
  CHECK(file::read(scratch / "f", 5, text) == 0);
  CHECK(file::read(scratch / "f", 4, text) == EFBIG);
  CHECK(file::read(scratch / "none", 5, text) == ENOENT);
  CHECK(file::read(scratch / "f/none", 5, text) == ENOTDIR);
  CHECK(file::read(scratch.path(), 5, text) == EINVAL);
  REQUIRE(::symlink((scratch / "f").c_str(), (scratch / "link").c_str()) == 0);
  CHECK(file::read(scratch / "link", 5, text) == ELOOP);
  REQUIRE(::mkfifo((scratch / "fifo").c_str(), 0600) == 0);
  CHECK(file::read(scratch / "fifo", 5, text) == EINVAL);  // and does not wait for a writer
}

TEST_CASE("directories are made with their parents, for the user alone") {
  const Scratch scratch;
  REQUIRE(file::make_directories(scratch / "a/b/c") == 0);
  CHECK(file::make_directories(scratch / "a/b/c") == 0);
  struct stat status {};
  REQUIRE(::stat((scratch / "a").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  REQUIRE(file::publish(scratch.path(), scratch / "f", "") == 0);
  CHECK(file::make_directories(scratch / "f") == ENOTDIR);
  CHECK(file::make_directories(scratch / "f/g") == ENOTDIR);
  CHECK(file::make_directories("") == ENOENT);
}

TEST_CASE("a stamp changes with the file and not with the name it is reached by") {
  const Scratch scratch;
  std::string before;
  std::string after;
  std::string real;
  REQUIRE(file::publish(scratch.path(), scratch / "f", "1") == 0);
  REQUIRE(::symlink("f", (scratch / "link").c_str()) == 0);
  REQUIRE(file::stamp(scratch / "f", before) == 0);
  REQUIRE(file::stamp(scratch / "link", after, &real) == 0);
  CHECK(after == before);
  CHECK(real == scratch / "f");
  REQUIRE(file::publish(scratch.path(), scratch / "f", "2") == 0);
  REQUIRE(file::stamp(scratch / "f", after) == 0);
  CHECK(after != before);
  CHECK(file::stamp(scratch / "none", after) == ENOENT);
}

TEST_CASE("absolute paths carry no slash at the end") {
  CHECK(file::absolute("/a/b//") == "/a/b");
  CHECK(file::absolute("/") == "/");
  CHECK(file::absolute("x").ends_with("/x"));
  CHECK(file::absolute("x").starts_with("/"));
}

// The bug: a fifo in a journal's place stopped a search before its first line, for ever.
TEST_CASE("what grows is a file and nothing else") {
  const Scratch scratch;
  const std::string fifo = scratch / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  file::Appender to;
  CHECK(to.open(fifo, file::Appender::Start::anew) == ENXIO);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  CHECK(to.open(fifo, file::Appender::Start::at_end) == EINVAL);
  CHECK(to.append("x") == EBADF);
  ::close(reader);
  CHECK(to.open(scratch / "file", file::Appender::Start::anew) == 0);
  CHECK(to.append("x") == 0);
}

// The bug: files were made for their user alone wherever, so that what one user of a shared cache
// compiled no other could read, nor write beside.
TEST_CASE("what is made in a directory that is shared is for whom it is for") {
  const Scratch scratch;
  const auto mode_of = [&](const char* name) {
    struct stat status {};
    REQUIRE(::stat((scratch / name).c_str(), &status) == 0);
    return status.st_mode & 07777;
  };
  const auto make = [&](mode_t mode) {
    REQUIRE(::chmod(scratch.path().c_str(), mode) == 0);
    REQUIRE(file::make_directories(scratch / "a/b") == 0);
    REQUIRE(file::publish(scratch.path(), scratch / "a/b/f", "x") == 0);
    file::Lock lock;
    REQUIRE(lock.try_acquire(scratch / "a/lock") == 0);
  };
  const auto clear = [&] {
    for (const char* name : {"a/b/f", "a/lock"}) REQUIRE(file::remove(scratch / name) == 0);
    for (const char* name : {"a/b", "a"}) REQUIRE(::rmdir((scratch / name).c_str()) == 0);
  };
  make(02775);
  CHECK((mode_of("a/b") & 0777) == 0700);
  CHECK(mode_of("a/b/f") == 0600);
  clear();
  const kda::test::Environment sharing("KDA_CACHE_TRUST_SHARED", "1");
  for (const auto& [around, made] : {std::pair<mode_t, mode_t>{02775, 0775},
                                     {0755, 0755},
                                     {0777, 0777},
                                     {0700, 0700},
                                     {01777, 0700}}) {
    INFO(around);
    make(around);
    CHECK((mode_of("a") & 0777) == made);
    CHECK((mode_of("a/b") & 0777) == made);
    CHECK((mode_of("a/b") & 02000) == (around & 02000));
    CHECK(mode_of("a/lock") == (made & 0666));
    clear();
  }
}

// Of files that were there, and behind links, nothing is anybody else's concern.
TEST_CASE("what has another name elsewhere is not shared") {
  const Scratch scratch;
  REQUIRE(file::make_directories(scratch / "shared") == 0);
  REQUIRE(file::make_directories(scratch / "private") == 0);
  REQUIRE(file::publish(scratch.path(), scratch / "private/f", "x") == 0);
  REQUIRE(::chmod((scratch / "shared").c_str(), 0777) == 0);
  REQUIRE(::link((scratch / "private/f").c_str(), (scratch / "shared/lock").c_str()) == 0);
  REQUIRE(::symlink((scratch / "private").c_str(), (scratch / "shared/d").c_str()) == 0);
  const kda::test::Environment sharing("KDA_CACHE_TRUST_SHARED", "1");
  file::Lock lock;
  REQUIRE(lock.try_acquire(scratch / "shared/lock") == 0);
  kda::base::share_directory(scratch / "shared/d", kda::base::share_mode(scratch / "shared/d"));
  for (const char* name : {"private", "private/f"}) {
    struct stat status {};
    REQUIRE(::stat((scratch / name).c_str(), &status) == 0);
    CHECK((status.st_mode & 0077) == 0);
  }
}
