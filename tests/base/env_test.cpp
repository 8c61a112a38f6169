#include "base/env.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "kda/log.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

namespace env = kda::base::env;
using kda::test::Environment;

TEST_CASE("the table names each variable once and says what it means") {
  std::set<std::string> names;
  for (const env::Variable& row : env::table()) {
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(std::string(row.meaning).size() > 5);
    CHECK_FALSE(std::string(row.fallback).empty());
  }
  for (const char* name : {"KDA_CACHE_DIR", "KDA_CACHE", "KDA_NVRTC_PATH", "KDA_LOG"}) {
    CHECK(names.count(name) == 1);
  }
}

TEST_CASE("a bad value is reported once, and then the default holds") {
  int complaints = 0;
  kda::set_log(kda::LogLevel::warn, [&](kda::LogLevel, std::string_view text) {
    if (text.find("KDA_JIT_THREADS=\"lots\" is not") != std::string_view::npos) ++complaints;
  });
  const Environment set("KDA_JIT_THREADS", "lots");
  CHECK(env::integer("KDA_JIT_THREADS", 3) == 3);
  CHECK(env::integer("KDA_JIT_THREADS", 3) == 3);
  kda::set_log(kda::LogLevel::off);
  CHECK(complaints == 1);
}

// The bug: only what somebody had read by then was complained of.
TEST_CASE("what is wrong is known of every variable that has a form") {
  for (const env::Variable& row : env::table()) {
    INFO(row.name);
    const Environment set(row.name, "no such thing");
    const std::vector<std::string> all = env::complaints();
    const bool told = std::any_of(all.begin(), all.end(), [&](const std::string& text) {
      return text.starts_with(std::string(row.name) + "=");
    });
    CHECK(told == (row.form.kind != env::Form::Kind::text));
  }
}

TEST_CASE("numbers keep to their limits") {
  const auto value = [](const char* text) {
    const Environment set("KDA_JIT_THREADS", text);
    return env::integer("KDA_JIT_THREADS", 3);
  };
  CHECK(value("1") == 1);
  CHECK(value(" 1024 ") == 1024);
  CHECK(value("1025") == 3);
  CHECK(value("0") == 3);
  CHECK(value("") == 3);
}

TEST_CASE("KDA_CACHE is off, ro or rw") {
  const auto mode = [](const char* text) {
    const Environment set("KDA_CACHE", text);
    return env::cache_mode();
  };
  CHECK(mode("off") == env::CacheMode::off);
  CHECK(mode("RO") == env::CacheMode::read_only);
  CHECK(mode("rw") == env::CacheMode::read_write);
  CHECK(mode("") == env::CacheMode::read_write);
  CHECK(mode("readonly") == env::CacheMode::read_write);
}

TEST_CASE("the cache directory is the user's word, then XDG's, then home's") {
  const Environment home("HOME", "/home/someone");
  const Environment xdg("XDG_CACHE_HOME", nullptr);
  const Environment own("KDA_CACHE_DIR", nullptr);
  CHECK(env::cache_root() == "/home/someone/.cache/kda");
  const Environment xdg_set("XDG_CACHE_HOME", "/fast");
  CHECK(env::cache_root() == "/fast/kda");
  {
    const Environment relative("XDG_CACHE_HOME", "fast");
    CHECK(env::cache_root() == "/home/someone/.cache/kda");
  }
  const Environment own_set("KDA_CACHE_DIR", "/mine/");
  CHECK(env::cache_root() == "/mine");
  const Environment relative("KDA_CACHE_DIR", "mine");
  CHECK(env::cache_root() == (std::filesystem::current_path() / "mine").string());
}

TEST_CASE("sizes and switches") {
  const auto bytes = [](const char* text) {
    const Environment set("KDA_CACHE_MAX_SIZE", text);
    return env::bytes("KDA_CACHE_MAX_SIZE", 7);
  };
  CHECK(bytes("500M") == 500 << 20);
  CHECK(bytes(" 2g ") == std::int64_t{2} << 30);
  CHECK(bytes("0") == 0);
  for (const char* bad : {"", "M", "-1", "1.5G", "9999999999T", "2GB"}) CHECK(bytes(bad) == 7);
  const auto flag = [](const char* text) {
    const Environment set("KDA_STRICT_TOOLCHAIN", text);
    return env::flag("KDA_STRICT_TOOLCHAIN", false);
  };
  CHECK(flag("1"));
  CHECK(flag("on"));
  CHECK_FALSE(flag("0"));
  CHECK_FALSE(flag("perhaps"));
}

TEST_CASE("the snapshot changes with whatever is read, and with nothing else") {
  const std::string before = env::snapshot();
  for (const env::Variable& row : env::table()) {
    INFO(row.name);
    const Environment set(row.name, "something else");
    CHECK(env::snapshot() != before);
  }
  const Environment other("KDA_NOT_READ", "1");
  CHECK(env::snapshot() == before);
}

// By equal snapshots a plan is taken for one that was made before: values must not run together.
TEST_CASE("the snapshot tells which variable has a value") {
  const auto with = [](const char* first, const char* second) {
    const Environment home("CUDA_HOME", first), path("CUDA_PATH", second);
    return env::snapshot();
  };
  CHECK(with("/cuda", nullptr) != with(nullptr, "/cuda"));
  CHECK(with("/cu", "da") != with("/c", "uda"));
}

// The bug: a misspelt name went unnoticed.
TEST_CASE("names that begin as the library's and are none of its are found") {
  const Environment misspelt("KDA_CAHCE_DIR", "/tmp"), known("KDA_CACHE_DIR", "/tmp"),
      other("KDB_CACHE_DIR", "/tmp"), of_python("KDA_LIBRARY", "/tmp");
  const std::vector<std::string> all = env::unknown_names();
  const auto has = [&](const char* name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  CHECK(has("KDA_CAHCE_DIR"));
  CHECK_FALSE(has("KDA_CACHE_DIR"));
  CHECK_FALSE(has("KDB_CACHE_DIR"));
  CHECK_FALSE(has("KDA_LIBRARY"));
}
