#include "cache/sweep.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.hpp"
#include "base/file.hpp"
#include "base/file_lock.hpp"
#include "cache/entries.hpp"
#include "cache/layout.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

namespace file = kda::base::file;
using kda::cache::Cache;
using kda::cache::Layout;
using kda::cache::Origin;
using kda::cache::sweep;
using kda::cache::Swept;
using kda::test::Environment;
using kda::test::fresh_origin_of;
using kda::test::key_for;
using kda::test::Scratch;

namespace {

constexpr std::int64_t kHour = 3600;

std::string path_of(const Scratch& scratch, const std::string& source) {
  return Layout(scratch.path()).entry(key_for(source).digest());
}

// As if last used so long ago; negative: in the future, as after a clock was set back.
void set_age(const std::string& path, std::int64_t seconds) {
  const timespec when{static_cast<time_t>(file::now() - seconds), 0};
  const timespec times[] = {when, when};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

std::int64_t age_of(const std::string& path) {
  file::Info info;
  REQUIRE(file::info(path, info) == 0);
  return file::now() - info.changed;
}

bool exists(const std::string& path) {
  file::Info info;
  return file::info(path, info) == 0;
}

// Ten entries, "0" used longest ago; all of a size.
std::size_t fill(const Scratch& scratch) {
  std::size_t bytes = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string source = std::to_string(i);
    REQUIRE(fresh_origin_of(scratch.path(), source) == Origin::built);
    set_age(path_of(scratch, source), (20 - i) * kHour);
    file::Info info;
    REQUIRE(file::info(path_of(scratch, source), info) == 0);
    bytes = info.bytes;
  }
  return bytes;
}

}  // namespace

TEST_CASE("a directory over its bytes loses what was used longest ago, down to the target") {
  const Scratch scratch;
  const auto each = static_cast<std::int64_t>(fill(scratch));
  CHECK(sweep(scratch.path(), 10 * each, 8 * each).entries == 0);
  const Swept swept = sweep(scratch.path(), 10 * each - 1, 8 * each);
  CHECK(swept.entries == 2);
  CHECK(swept.bytes == static_cast<std::size_t>(2 * each));
  CHECK(swept.kept_bytes == static_cast<std::size_t>(8 * each));
  CHECK_FALSE(exists(path_of(scratch, "0")));
  CHECK_FALSE(exists(path_of(scratch, "1")));
  CHECK(exists(path_of(scratch, "2")));
}

TEST_CASE("a hit renews an entry that was not renewed for an hour, whatever atime says") {
  const Scratch scratch;
  const auto each = static_cast<std::int64_t>(fill(scratch));
  CHECK(fresh_origin_of(scratch.path(), "0") == Origin::disk);
  CHECK(age_of(path_of(scratch, "0")) < 60);
  sweep(scratch.path(), each, 2 * each);
  CHECK(exists(path_of(scratch, "0")));
  CHECK_FALSE(exists(path_of(scratch, "1")));

  set_age(path_of(scratch, "9"), kHour / 2);
  CHECK(fresh_origin_of(scratch.path(), "9") == Origin::disk);
  CHECK(age_of(path_of(scratch, "9")) > kHour / 4);  // not yet due
  const Environment read_only("KDA_CACHE", "ro");
  set_age(path_of(scratch, "9"), 5 * kHour);
  CHECK(fresh_origin_of(scratch.path(), "9") == Origin::disk);
  CHECK(age_of(path_of(scratch, "9")) > 4 * kHour);
}

TEST_CASE("young entries stay, even over the limit") {
  const Scratch scratch;
  const auto each = static_cast<std::int64_t>(fill(scratch));
  for (int i = 0; i < 10; ++i) set_age(path_of(scratch, std::to_string(i)), 30);
  CHECK(sweep(scratch.path(), each, 0).entries == 0);
  CHECK(sweep(scratch.path(), each, 0, 0).entries == 10);
}

TEST_CASE("after the clock was set back, entries of the future go by their distance") {
  const Scratch scratch;
  const auto each = static_cast<std::int64_t>(fill(scratch));
  set_age(path_of(scratch, "9"), -1000 * kHour);
  set_age(path_of(scratch, "8"), -1 * kHour);
  set_age(path_of(scratch, "7"), -10);
  CHECK(sweep(scratch.path(), each, 3 * each).entries == 7);
  CHECK_FALSE(exists(path_of(scratch, "9")));
  CHECK(exists(path_of(scratch, "8")));
  CHECK(exists(path_of(scratch, "7")));
  CHECK(fresh_origin_of(scratch.path(), "8") == Origin::disk);
  CHECK(std::abs(age_of(path_of(scratch, "8"))) <= kHour);
}

TEST_CASE("what a writer left behind goes when it is an hour old") {
  const Scratch scratch;
  fill(scratch);
  const Layout at(scratch.path());
  REQUIRE(file::publish(at.temporary(), at.temporary() + "/1.0", "half") == 0);
  REQUIRE(file::publish(at.temporary(), at.temporary() + "/2.0", "half") == 0);
  REQUIRE(file::make_directories(at.bad()) == 0);
  REQUIRE(file::publish(at.temporary(), at.bad() + "/x.kdo", "damaged") == 0);
  REQUIRE(file::make_directories(at.bad() + "/y.kdo/in") == 0);
  set_age(at.temporary() + "/1.0", 2 * kHour);
  set_age(at.bad() + "/x.kdo", 2 * kHour);
  set_age(at.bad() + "/y.kdo", 2 * kHour);
  CHECK(sweep(scratch.path(), 1 << 30, 1 << 30).leftovers == 3);
  CHECK(at.temporaries().size() == 1);
  CHECK(at.set_aside().empty());
  CHECK(at.entries().size() == 10);
}

// The bug: those of measurements, which lie in the same directory, stayed for ever.
TEST_CASE("what a writer of measurements left behind goes, too") {
  const Scratch scratch;
  fill(scratch);
  const Layout at(scratch.path());
  REQUIRE(file::make_directories(at.wisdom_temporary()) == 0);
  REQUIRE(file::publish(at.temporary(), at.wisdom_temporary() + "/1.0", "half") == 0);
  set_age(at.wisdom_temporary() + "/1.0", 2 * kHour);
  CHECK(sweep(scratch.path(), 1 << 30, 1 << 30).leftovers == 1);
  CHECK(at.temporaries().empty());
}

namespace {
std::string used_meanwhile;  // by another process, once a sweep removes entries
}

// Who was given an entry's path is about to load it.
TEST_CASE("an entry that is used while a directory is swept stays") {
  const Scratch scratch;
  const auto each = static_cast<std::int64_t>(fill(scratch));
  used_meanwhile = path_of(scratch, "1");
  kda::base::fault::hook() = [](const char* step) {
    if (std::string(step) == "unlink" && !used_meanwhile.empty()) {
      (void)::utimensat(AT_FDCWD, used_meanwhile.c_str(), nullptr, 0);
      used_meanwhile.clear();
    }
    return 0;
  };
  const Swept swept = sweep(scratch.path(), each, 8 * each);
  kda::base::fault::hook() = nullptr;
  CHECK(swept.entries == 2);
  CHECK_FALSE(exists(path_of(scratch, "0")));
  CHECK(exists(path_of(scratch, "1")));
  CHECK_FALSE(exists(path_of(scratch, "2")));
}

TEST_CASE("one process sweeps at a time") {
  const Scratch scratch;
  const auto each = static_cast<std::int64_t>(fill(scratch));
  file::Lock other;
  REQUIRE(other.try_acquire(Layout(scratch.path()).locks() + "/sweep.lock") == 0);
  CHECK(sweep(scratch.path(), each, 0).busy);
  CHECK(Layout(scratch.path()).entries().size() == 10);
  other.release();
  CHECK(sweep(scratch.path(), each, 0).entries == 10);
}

// The bug: a lock that could not be opened was taken for another process, forever.
TEST_CASE("a lock that cannot be opened is nobody's") {
  const Scratch scratch;
  const auto each = static_cast<std::int64_t>(fill(scratch));
  const std::string lock = Layout(scratch.path()).locks() + "/sweep.lock";
  (void)file::remove(lock);
  REQUIRE(file::make_directories(lock) == 0);
  const Swept swept = sweep(scratch.path(), each, 0);
  CHECK_FALSE(swept.busy);
  CHECK(swept.entries == 10);
}

// kache#497: the limit was kept by a call that nobody made.
TEST_CASE("publishing keeps the directory within KDA_CACHE_MAX_SIZE") {
  const Scratch scratch;
  fill(scratch);
  const Environment limit("KDA_CACHE_MAX_SIZE", "1K");
  CHECK(fresh_origin_of(scratch.path(), "new") == Origin::built);
  CHECK(exists(path_of(scratch, "new")));
  CHECK(Layout(scratch.path()).entries().size() < 5);
}

TEST_CASE("what is no entry among the entries is neither counted nor swept") {
  const Scratch scratch;
  const auto each = static_cast<std::int64_t>(fill(scratch));
  const std::string notes = path_of(scratch, "0") + ".notes";
  REQUIRE(file::publish(scratch.path(), notes, "a user's") == 0);
  set_age(notes, 48 * kHour);
  CHECK(sweep(scratch.path(), 10 * each, 0).kept_bytes == static_cast<std::size_t>(10 * each));
  CHECK(sweep(scratch.path(), each, 0).entries == 10);
  CHECK(exists(notes));
}

TEST_CASE("a directory that is not there, or is none, sweeps to nothing") {
  const Scratch scratch;
  CHECK(sweep(scratch / "missing", 0, 0).entries == 0);
  CHECK(sweep("/dev/null/kda", 0, 0).entries == 0);
}

// The bug: links below a cache's root were followed, so that a first publish, and `kda-tune cache
// clear`, removed whatever was old, or anything, where v1/tmp led.
TEST_CASE("what lies behind a link below the root is nobody's leftover") {
  struct Row {
    const char *link, *inside;  // a folder of the cache, and where its files would lie behind it
  };
  for (const Row& row : {Row{"/v1/tmp", ""}, Row{"/v1/bad", ""}, Row{"/v1/objects", "/zz"},
                         Row{"/v1", "/tmp"}, Row{"/v1", "/objects/zz"}, Row{"/wisdom/v1/tmp", ""},
                         Row{"/wisdom/v1", "/tmp"}, Row{"/wisdom", "/v1/tmp"}}) {
    INFO(row.link << " " << row.inside);
    const Scratch scratch;
    const std::string root = scratch / "c";
    const std::string home = scratch / "home";
    const std::string thing = home + row.inside + "/thing.kdo";
    REQUIRE(file::make_directories(home + row.inside) == 0);
    REQUIRE(file::publish(scratch.path(), thing, "mine") == 0);
    set_age(thing, 48 * kHour);
    const std::string from = root + row.link;
    REQUIRE(file::make_directories(from.substr(0, from.find_last_of('/'))) == 0);
    REQUIRE(::symlink(home.c_str(), from.c_str()) == 0);
    const Layout at(root);
    CHECK(at.temporaries().empty());
    CHECK(at.set_aside().empty());
    CHECK(at.entries().empty());
    CHECK(sweep(root, 0, 0, 0).leftovers == 0);
    CHECK(exists(thing));
  }
}

TEST_CASE("a cache whose entries lie behind a link is not called empty") {
  const Scratch scratch;
  REQUIRE(file::make_directories(scratch / "c/v1") == 0);
  REQUIRE(file::make_directories(scratch / "elsewhere") == 0);
  REQUIRE(::symlink((scratch / "elsewhere").c_str(), (scratch / "c/v1/objects").c_str()) == 0);
  CHECK(Layout(scratch / "c").trouble() ==
        scratch / "c/v1/objects is a link; what it leads to is left alone");
}

// The bug: a folder that others may write switched this off in silence, for ever.
TEST_CASE("a directory that is not looked through says why") {
  const Scratch scratch;
  const auto each = static_cast<std::int64_t>(fill(scratch));
  REQUIRE(::chmod((scratch / "v1").c_str(), 0775) == 0);
  const Swept swept = sweep(scratch.path(), each, each);
  CHECK(swept.entries == 0);
  CHECK_THAT(swept.distrusted, kda::test::contains("v1 may be written by others"));
  REQUIRE(::chmod((scratch / "v1").c_str(), 0755) == 0);
  CHECK(sweep(scratch.path(), each, each).distrusted.empty());
}

// The bug: entries were written through a link and never counted, so the limit was no limit, and
// nobody was told.
TEST_CASE("a cache whose entries lie behind a link is not kept within its limit, and says so") {
  const Scratch scratch;
  REQUIRE(file::make_directories(scratch / "c/v1") == 0);
  REQUIRE(file::make_directories(scratch / "elsewhere") == 0);
  REQUIRE(::symlink((scratch / "elsewhere").c_str(), (scratch / "c/v1/objects").c_str()) == 0);
  const kda::test::Warnings warnings;
  CHECK(kda::test::fresh_origin_of(scratch / "c", "a") == Origin::built);
  CHECK(kda::test::fresh_origin_of(scratch / "c", "a") == Origin::disk);
  REQUIRE(warnings.texts.size() == 1);
  CHECK_THAT(warnings.texts[0], kda::test::contains("is not kept within KDA_CACHE_MAX_SIZE") &&
                                    kda::test::contains("objects is a link"));
}
