#include "cache/cache.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <stdexcept>
#include <thread>

#include "base/file.hpp"
#include "cache/entries.hpp"
#include "cache/layout.hpp"
#include "kda/log.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace file = kda::base::file;
using kda::Code;
using kda::Result;
using kda::Status;
using kda::cache::Cache;
using kda::cache::Entry;
using kda::cache::Found;
using kda::cache::Origin;
using kda::test::contains;
using kda::test::entry_for;
using kda::test::Environment;
using kda::test::key_for;
using kda::test::Scratch;
using kda::test::Warnings;

namespace {

// Counts its builds.
struct Builder {
  std::string source = "a";
  int builds = 0;

  Result<Found> get(Cache& cache) {
    return cache.get(key_for(source), [this]() -> Result<Entry> {
      ++builds;
      return entry_for(source);
    });
  }
};

Origin origin_in(Cache& cache, const std::string& source = "a") {
  Builder builder{.source = source};
  const Result<Found> found = builder.get(cache);
  REQUIRE(found);
  CHECK(found->entry->cubin == entry_for(source).cubin);
  CHECK(builder.builds == (found->origin == Origin::built ? 1 : 0));
  return found->origin;
}

Origin origin_in_new_cache(const Scratch& scratch) {
  Cache cache(scratch.path());
  return origin_in(cache);
}

std::string path_of(const Scratch& scratch, const std::string& source) {
  const std::string digest = key_for(source).digest();
  return scratch / ("v1/objects/" + digest.substr(0, 2) + "/" + digest + ".kdo");
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  (void)file::list(directory, names);
  return names;
}

}  // namespace

TEST_CASE("a kernel is built once, then found in memory, then on disk") {
  const Scratch scratch;
  Cache cache(scratch.path());
  CHECK(cache.directory() == scratch.path());
  CHECK(origin_in(cache) == Origin::built);
  CHECK(origin_in(cache) == Origin::memory);
  CHECK(origin_in(cache, "b") == Origin::built);
  CHECK(origin_in_new_cache(scratch) == Origin::disk);

  struct stat status {};
  REQUIRE(::stat(path_of(scratch, "a").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"CACHEDIR.TAG", "v1"});
  CHECK(names_in(scratch / "v1/tmp").empty());
}

TEST_CASE("a damaged entry is a miss: said once, set aside and replaced") {
  const Scratch scratch;
  const std::string path = path_of(scratch, "a");
  CHECK(origin_in_new_cache(scratch) == Origin::built);
  std::string good;
  REQUIRE(file::read(path, 1 << 20, good) == 0);
  std::vector<std::string> damaged = {"", good.substr(0, good.size() / 2), good + "x"};
  for (std::size_t at = 0; at < good.size(); ++at) {
    damaged.push_back(good);
    damaged.back()[at] = static_cast<char>(~good[at]);
  }
  for (const std::string& contents : damaged) {
    REQUIRE(file::publish(scratch.path(), path, contents) == 0);
    const Warnings warnings;
    REQUIRE(origin_in_new_cache(scratch) == Origin::built);
    REQUIRE(warnings.texts.size() == 1);
    REQUIRE(names_in(scratch / "v1/bad").size() == 1);
    REQUIRE(origin_in_new_cache(scratch) == Origin::disk);
  }
}

// The bug: a directory in an entry's place stayed there where a damaged file of that name had been
// set aside before, and each process compiled again.
TEST_CASE("a directory where an entry belongs is set aside beside what was before") {
  const Scratch scratch;
  CHECK(origin_in_new_cache(scratch) == Origin::built);
  const std::string path = path_of(scratch, "a");
  REQUIRE(file::publish(scratch.path(), path, "damaged") == 0);
  for (int turn = 0; turn < 3; ++turn) {  // a file, a directory beside it and one beside that
    if (turn > 0) {
      REQUIRE(file::remove(path) == 0);
      REQUIRE(::mkdir(path.c_str(), 0700) == 0);
      REQUIRE(file::publish(scratch.path(), path + "/in", "it") == 0);
    }
    CHECK(origin_in_new_cache(scratch) == Origin::built);
    CHECK(origin_in_new_cache(scratch) == Origin::disk);
  }
  REQUIRE(file::publish(scratch.path(), path, "damaged") == 0);
  CHECK(origin_in_new_cache(scratch) == Origin::built);
  CHECK(origin_in_new_cache(scratch) == Origin::disk);
}

TEST_CASE("what is no file where an entry belongs is a miss") {
  const Scratch scratch;
  const std::string path = path_of(scratch, "a");
  const std::string folder = path.substr(0, path.find_last_of('/'));
  REQUIRE(file::make_directories(folder) == 0);
  SECTION("a directory") { REQUIRE(::mkdir(path.c_str(), 0700) == 0); }
  SECTION("a fifo") { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }
  SECTION("a link to a whole entry elsewhere") {
    const Scratch elsewhere;
    CHECK(origin_in_new_cache(elsewhere) == Origin::built);
    REQUIRE(::symlink(path_of(elsewhere, "a").c_str(), path.c_str()) == 0);
  }
  CHECK(origin_in_new_cache(scratch) == Origin::built);
  CHECK(origin_in_new_cache(scratch) == Origin::disk);
}

TEST_CASE("a directory that cannot be written costs one warning and no kernel") {
  const Scratch scratch;
  REQUIRE(file::publish(scratch.path(), scratch / "file", "") == 0);
  for (const std::string& directory :
       {scratch / "file/kda", std::string("/proc/kda"), std::string("/dev/null/kda")}) {
    INFO(directory);
    const Warnings warnings;
    Cache cache(directory);
    CHECK(origin_in(cache, "a") == Origin::built);
    CHECK(origin_in(cache, "b") == Origin::built);
    CHECK(origin_in(cache, "a") == Origin::memory);
    REQUIRE(warnings.texts.size() == 1);
    CHECK_THAT(warnings.texts[0], contains("cannot write to " + directory));
  }
}

TEST_CASE("KDA_CACHE=ro reads and never writes") {
  const Scratch scratch;
  {
    const Environment set("KDA_CACHE", "ro");
    CHECK(origin_in_new_cache(scratch) == Origin::built);
    CHECK(names_in(scratch.path()).empty());
  }
  CHECK(origin_in_new_cache(scratch) == Origin::built);
  const Environment set("KDA_CACHE", "ro");
  CHECK(origin_in_new_cache(scratch) == Origin::disk);
  const std::string path = path_of(scratch, "a");
  REQUIRE(file::publish(scratch.path(), path, "damaged") == 0);
  CHECK(origin_in_new_cache(scratch) == Origin::built);
  std::string contents;
  CHECK(file::read(path, 100, contents) == 0);
  CHECK(contents == "damaged");
}

TEST_CASE("KDA_CACHE=off keeps to memory") {
  const Scratch scratch;
  const Environment set("KDA_CACHE", "off");
  Cache cache(scratch.path());
  CHECK(cache.directory().empty());
  CHECK(origin_in(cache) == Origin::built);
  CHECK(origin_in(cache) == Origin::memory);
  CHECK(names_in(scratch.path()).empty());
}

TEST_CASE("eight threads that want one kernel build it once, and all get it") {
  const Scratch scratch;
  Cache cache(scratch.path());
  std::atomic<int> builds = 0;
  std::atomic<int> good = 0;
  std::barrier start(8);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      const auto found = cache.get(key_for("a"), [&]() -> Result<Entry> {
        ++builds;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return entry_for("a");
      });
      if (found && found->entry->cubin == entry_for("a").cubin) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(builds == 1);
  CHECK(good == 8);
}

TEST_CASE("different kernels build at the same time") {
  const Scratch scratch;
  Cache cache(scratch.path());
  std::barrier both(2);  // each build waits for the other: one at a time would hang
  std::vector<std::thread> threads;
  for (const char* source : {"a", "b"}) {
    threads.emplace_back([&, source] {
      (void)cache.get(key_for(source), [&]() -> Result<Entry> {
        both.arrive_and_wait();
        return entry_for(source);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(origin_in(cache, "a") == Origin::memory);
  CHECK(origin_in(cache, "b") == Origin::memory);
}

TEST_CASE("a failed build reaches every waiter, leaves no file and is tried again") {
  const Scratch scratch;
  Cache cache(scratch.path());
  std::atomic<int> builds = 0;
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto found = cache.get(key_for("a"), [&]() -> Result<Entry> {
        ++builds;
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        return Status(Code::compile_failed, "kda.cu(1): no");
      });
      if (!found && found.status().message() == "kda.cu(1): no") ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 4);
  CHECK(kda::cache::Layout(scratch.path()).entries().empty());
  const int before = builds;
  CHECK_FALSE(cache.get(key_for("a"), [&]() -> Result<Entry> {
    ++builds;
    return Status(Code::compile_failed, "again");
  }));
  CHECK(builds == before + 1);
  CHECK(origin_in(cache) == Origin::built);
}

TEST_CASE("a build that throws, or yields the wrong thing, is an error and is not kept") {
  const Scratch scratch;
  Cache cache(scratch.path());
  const auto thrown = cache.get(
      key_for("a"), []() -> Result<Entry> { throw std::runtime_error("out of registers"); });
  REQUIRE_FALSE(thrown);
  CHECK_THAT(thrown.status().message(), contains("out of registers"));

  const auto empty = cache.get(key_for("a"), []() -> Result<Entry> {
    Entry entry = entry_for("a");
    entry.cubin.clear();
    return entry;
  });
  REQUIRE_FALSE(empty);
  CHECK(empty.status().code() == Code::compile_failed);

  const auto other = cache.get(key_for("a"), []() -> Result<Entry> {
    Entry entry = entry_for("a");
    entry.target = "sm_89";
    return entry;
  });
  CHECK_FALSE(other);
  CHECK(kda::cache::Layout(scratch.path()).entries().empty());
  CHECK(origin_in(cache) == Origin::built);
}

TEST_CASE("apart: fill the cache", "[.]") {
  Cache cache("");
  for (int i = 0; i < 200; ++i) {
    const std::string source = std::to_string(i);
    const auto found =
        cache.get(key_for(source), [&]() -> Result<Entry> { return entry_for(source); });
    REQUIRE(found);
    REQUIRE(found->entry->cubin == entry_for(source).cubin);
  }
}

TEST_CASE("processes that fill one directory at once all succeed and leave whole entries") {
  const Scratch scratch;
  std::vector<std::thread> processes;
  std::atomic<int> failed = 0;
  for (int i = 0; i < 4; ++i) {
    processes.emplace_back([&] {
      const auto apart = kda::test::run_case_apart(
          "apart: fill the cache", {{"KDA_CACHE_DIR", scratch.path()}, {"KDA_LOG", "warn"}});
      if (apart.code != 0 || apart.output.find("warning:") != std::string::npos) ++failed;
    });
  }
  for (std::thread& process : processes) process.join();
  CHECK(failed == 0);
  CHECK(names_in(scratch / "v1/tmp").empty());
  CHECK(names_in(scratch / "v1/bad").empty());
  Cache cache(scratch.path());
  for (int i = 0; i < 200; ++i) {
    REQUIRE(origin_in(cache, std::to_string(i)) == Origin::disk);
  }
}

TEST_CASE("a directory has one cache in the process, however it is written") {
  const Scratch scratch;
  const auto cache = kda::cache::shared_cache(scratch.path());
  CHECK(kda::cache::shared_cache(scratch.path() + "/") == cache);
  const Scratch other;
  CHECK(kda::cache::shared_cache(other.path()) != cache);
  const Environment set("KDA_CACHE_DIR", scratch.path());
  CHECK(kda::cache::shared_cache("") == cache);
}

// One that was made for another mode would write what is only to be read, or keep nothing; and one
// from before KDA_CACHE_PATH was set would compile what is there.
TEST_CASE("a directory has another cache for another mode, and for another KDA_CACHE_PATH") {
  using kda::base::env::CacheMode;
  const Scratch scratch, other;
  const std::string root = scratch / "kda";
  CHECK(origin_in(*kda::cache::shared_cache(root, CacheMode::read_only)) == Origin::built);
  CHECK(names_in(root).empty());
  const auto off = kda::cache::shared_cache(root, CacheMode::off);
  CHECK(off->directory().empty());
  const auto cache = kda::cache::shared_cache(root, CacheMode::read_write);
  CHECK(origin_in(*cache) == Origin::built);
  CHECK(names_in(root) == std::vector<std::string>{"CACHEDIR.TAG", "v1"});
  CHECK(kda::cache::shared_cache(root, CacheMode::off) == off);
  {
    const Environment path("KDA_CACHE_PATH", other.path());
    CHECK(kda::cache::shared_cache(root, CacheMode::read_write)->more_directories() ==
          std::vector<std::string>{other.path()});
  }
  CHECK(kda::cache::shared_cache(root, CacheMode::read_write) == cache);
}

TEST_CASE("caches are made while this process forks", "[cache]") {
  // Once the map of caches was locked while a new cache enrolled its mutexes for forks, and a fork
  // that held their list waited for the map.  Few: TSan counts 64 locks held at once.
  const kda::test::Scratch scratch;
  std::atomic<bool> made{false};
  std::thread maker([&] {
    for (int i = 0; i < 8; ++i) (void)kda::cache::shared_cache(scratch / std::to_string(i));
    made = true;
  });
  while (!made) CHECK(kda::test::in_child([] { return 0; }) == 0);
  maker.join();
  CHECK(kda::cache::shared_cache(scratch / "7") == kda::cache::shared_cache(scratch / "7"));
}
