// Directories that others own, links, and users without a home.
#include "base/trust.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/env.hpp"
#include "base/file.hpp"
#include "cache/entries.hpp"
#include "cache/layout.hpp"
#include "cache/survey.hpp"
#include "cache/sweep.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace file = kda::base::file;
using kda::base::distrust;
using kda::cache::Cache;
using kda::cache::Layout;
using kda::cache::Origin;
using kda::cache::shared_cache;
using kda::test::contains;
using kda::test::Environment;
using kda::test::fresh_origin_of;
using kda::test::in_child;
using kda::test::origin_of;
using kda::test::Scratch;
using kda::test::Warnings;

namespace {

constexpr uid_t kSomeone = 12345, kNobodyElse = 54321;

bool is_root() { return ::geteuid() == 0; }

}  // namespace

TEST_CASE("a directory that others may write is not used, and the warning says what would do") {
  const Scratch scratch;
  const std::string root = scratch / "kda";
  CHECK(fresh_origin_of(root) == Origin::built);
  for (const mode_t mode : {0777, 0770, 01777}) {
    REQUIRE(::chmod(root.c_str(), mode) == 0);
    const Warnings warnings;
    Cache cache(root);
    CHECK(cache.directory().empty());
    CHECK(origin_of(cache) == Origin::built);
    REQUIRE(warnings.texts.size() == 1);
    CHECK_THAT(warnings.texts[0], contains("chmod go-w") && contains("KDA_CACHE_TRUST_SHARED=1"));
    const Environment trusting("KDA_CACHE_TRUST_SHARED", "1");
    CHECK(fresh_origin_of(root) == Origin::disk);
  }
  REQUIRE(::chmod(root.c_str(), 0755) == 0);
  CHECK(fresh_origin_of(root) == Origin::disk);
  struct stat status {};
  REQUIRE(::stat(root.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0755);  // modes that are there are left alone
}

// The bug: a process went by what it had found at first, so that neither remedy that the warning
// names did anything before it was started again.
TEST_CASE("a directory is used once it is trusted, by the same process") {
  const Scratch scratch;
  const std::string root = scratch / "kda";
  CHECK(fresh_origin_of(root) == Origin::built);
  REQUIRE(::chmod(root.c_str(), 0777) == 0);
  const Warnings warnings;
  CHECK(shared_cache(root)->directory().empty());
  {
    const Environment trusting("KDA_CACHE_TRUST_SHARED", "1");
    CHECK(shared_cache(root)->directory() == root);
  }
  CHECK(shared_cache(root)->directory().empty());
  REQUIRE(::chmod(root.c_str(), 0755) == 0);
  CHECK(shared_cache(root)->directory() == root);
  CHECK(origin_of(*shared_cache(root)) == Origin::disk);
}

TEST_CASE(
    "a directory that is named in KDA_CACHE_PATH is read whoever may write it, never written") {
  const Scratch scratch;
  CHECK(fresh_origin_of(scratch / "shared", "a") == Origin::built);
  REQUIRE(::chmod((scratch / "shared").c_str(), 0777) == 0);
  const Environment path("KDA_CACHE_PATH", ":" + scratch / "shared" + ":");
  CHECK(fresh_origin_of(scratch / "own", "a") == Origin::disk);
  CHECK(fresh_origin_of(scratch / "own", "b") == Origin::built);
  CHECK(Layout(scratch / "shared").entries().size() == 1);
  CHECK(Layout(scratch / "own").entries().size() == 1);
  Cache cache(scratch / "own");
  CHECK(cache.more_directories() == std::vector<std::string>{scratch / "shared"});

  // A damaged entry there is a miss, and stays where it is.
  const std::string entry = Layout(scratch / "shared").entries().at(0);
  REQUIRE(file::publish(scratch.path(), entry, "damaged") == 0);
  CHECK(fresh_origin_of(scratch / "own", "a") == Origin::built);
  CHECK(Layout(scratch / "shared").entries().size() == 1);
}

TEST_CASE("a word of KDA_CACHE_PATH that leads nowhere costs a warning") {
  const Scratch scratch;
  const Environment path("KDA_CACHE_PATH", scratch / "not there");
  const Warnings warnings;
  CHECK(fresh_origin_of(scratch / "own") == Origin::built);
  REQUIRE(warnings.texts.size() == 1);
  CHECK_THAT(warnings.texts[0], contains("KDA_CACHE_PATH") && contains("not there"));
}

TEST_CASE("a directory or an entry of another user is not believed") {
  if (!is_root()) {
    WARN("skipped: only root can make files of another user");
    return;
  }
  const Scratch scratch;
  const std::string root = scratch / "kda";
  CHECK(fresh_origin_of(root) == Origin::built);
  const std::string entry = Layout(root).entries().at(0);
  SECTION("the directory") {
    REQUIRE(::chown(root.c_str(), kSomeone, kSomeone) == 0);
    const Warnings warnings;
    CHECK(fresh_origin_of(root) == Origin::built);
    REQUIRE(warnings.texts.size() == 1);
    CHECK_THAT(warnings.texts[0], contains("belongs to user 12345"));
    const Environment trusting("KDA_CACHE_TRUST_SHARED", "1");
    CHECK(fresh_origin_of(root) == Origin::disk);
  }
  SECTION("a link to it") {
    REQUIRE(::symlink(root.c_str(), (scratch / "link").c_str()) == 0);
    CHECK(distrust(scratch / "link").empty());
    CHECK(fresh_origin_of(scratch / "link") == Origin::disk);
    REQUIRE(::lchown((scratch / "link").c_str(), kSomeone, kSomeone) == 0);
    CHECK_THAT(distrust(scratch / "link"), contains("12345"));
    REQUIRE(::lchown((scratch / "link").c_str(), 0, 0) == 0);
    REQUIRE(::chown(root.c_str(), kSomeone, kSomeone) == 0);
    CHECK_THAT(distrust(scratch / "link"), contains("leads to a directory of user 12345"));
  }
  SECTION("one entry") {
    REQUIRE(::chown(entry.c_str(), kSomeone, kSomeone) == 0);
    const Warnings warnings;
    CHECK(fresh_origin_of(root) == Origin::built);
    REQUIRE(warnings.texts.size() == 1);
    CHECK_THAT(warnings.texts[0], contains("another user"));
  }
}

TEST_CASE("an ordinary user reads what root keeps, and is told once that it cannot write") {
  if (!is_root()) {
    WARN("skipped: only root can become another user");
    return;
  }
  const Scratch scratch;
  REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
  const std::string root = scratch / "kda";
  CHECK(fresh_origin_of(root) == Origin::built);
  for (const char* inside : {"", "/v1", "/v1/objects", "/v1/locks"}) {
    REQUIRE(::chmod((root + inside).c_str(), 0755) == 0);
  }
  const std::string entry = Layout(root).entries().at(0);
  REQUIRE(::chmod(entry.c_str(), 0644) == 0);
  REQUIRE(::chmod(entry.substr(0, entry.find_last_of('/')).c_str(), 0755) == 0);
  const int code = in_child([&] {
    if (::setresuid(kSomeone, kSomeone, kSomeone) != 0) return 3;
    const Warnings warnings;
    Cache cache(root);
    if (origin_of(cache, "a") != Origin::disk) return 4;
    if (!warnings.texts.empty()) return 5;
    if (origin_of(cache, "b") != Origin::built || origin_of(cache, "c") != Origin::built) return 6;
    return warnings.texts.size() == 1 ? 0 : 7;
  });
  CHECK(code == 0);
}

TEST_CASE("without a home, and without an entry for the user, kernels stay in memory") {
  const Scratch scratch;
  const int code = in_child([&] {
    for (const char* name : {"HOME", "XDG_CACHE_HOME", "KDA_CACHE_DIR"}) ::unsetenv(name);
    if (::chdir(scratch.path().c_str()) != 0) return 3;
    if (is_root() && ::setresuid(kNobodyElse, kNobodyElse, kNobodyElse) != 0) return 4;
    if (!is_root() && !kda::base::env::cache_root().empty()) {
      Cache cache("");  // the password database knows this user: a home was found there
      return cache.directory().starts_with('/') && ::geteuid() != kNobodyElse ? 0 : 5;
    }
    Cache cache("");
    if (!cache.directory().empty()) return 6;
    return origin_of(cache) == Origin::built ? 0 : 7;
  });
  CHECK(code == 0);
  CHECK(std::filesystem::is_empty(scratch.path()));  // not in the working directory either
}

// Whoever may write v1 may have it lead elsewhere between a look and a removal; and a cache of
// others is still there to be looked into, as kda-tune does.
TEST_CASE("a folder of another user's below the root is looked into and not swept") {
  if (!is_root()) return;
  const Scratch scratch;
  const std::string root = scratch / "kda";
  CHECK(fresh_origin_of(root) == Origin::built);
  REQUIRE(::chown((root + "/v1").c_str(), kSomeone, kSomeone) == 0);
  CHECK(Layout(root).entries().size() == 1);
  CHECK(Layout(root).trouble().empty());
  CHECK(kda::cache::survey(root).size() == 1);
  CHECK(kda::cache::sweep(root, 0, 0, -1).entries == 0);
  REQUIRE(::chown((root + "/v1").c_str(), 0, 0) == 0);
  CHECK(kda::cache::sweep(root, 0, 0, -1).entries == 1);
}

// The bug: with KDA_CACHE_TRUST_SHARED=1 the first user's folders and files were closed to all
// others, who compiled everything again at every start, and could keep nothing.
TEST_CASE("users who share a directory find each other's kernels") {
  if (!is_root()) {
    WARN("skipped: only root can be two users");
    return;
  }
  const Scratch scratch;
  const std::string root = scratch / "kda";
  REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
  REQUIRE(file::make_directories(root) == 0);
  REQUIRE(::chown(root.c_str(), 0, kSomeone) == 0);
  REQUIRE(::chmod(root.c_str(), 02775) == 0);
  const Environment trusting("KDA_CACHE_TRUST_SHARED", "1");
  const auto as = [&](uid_t user, Origin a, Origin b) {
    return in_child([&] {
      if (::setgid(kSomeone) != 0 || ::setuid(user) != 0) return 3;
      const Warnings warnings;
      if (fresh_origin_of(root, "a") != a || fresh_origin_of(root, "b") != b) return 4;
      return warnings.texts.empty() ? 0 : 5;
    });
  };
  CHECK(as(kSomeone, Origin::built, Origin::built) == 0);
  CHECK(as(kNobodyElse, Origin::disk, Origin::disk) == 0);
  REQUIRE(file::remove(Layout(root).entries().at(0)) == 0);
  REQUIRE(Layout(root).entries().size() == 1);
  CHECK(in_child([&] {
          if (::setgid(kSomeone) != 0 || ::setuid(kNobodyElse) != 0) return 3;
          (void)fresh_origin_of(root, "a");
          (void)fresh_origin_of(root, "b");
          return Layout(root).entries().size() == 2 ? 0 : 4;
        }) == 0);
}

// The bug: who was told that no cache holds a kernel did not learn that one could not be looked
// into.
TEST_CASE("a directory that cannot be read is a trouble that who misses a kernel learns of") {
  if (!is_root()) {
    WARN("skipped: only root can make files of another user");
    return;
  }
  const Scratch scratch;
  REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
  const std::string root = scratch / "shared";
  CHECK(fresh_origin_of(root) == Origin::built);
  REQUIRE(::chmod(root.c_str(), 0755) == 0);
  const Environment path("KDA_CACHE_PATH", root);
  CHECK(Cache(scratch / "own").troubles().empty());
  CHECK(in_child([&] {
          if (::setgid(kSomeone) != 0 || ::setuid(kSomeone) != 0) return 3;
          const std::vector<std::string> troubles = Cache(scratch / "own").troubles();
          if (troubles.size() != 1) return 4;
          return troubles[0].find(root) != std::string::npos &&
                         troubles[0].find("EACCES") != std::string::npos
                     ? 0
                     : 5;
        }) == 0);
}
