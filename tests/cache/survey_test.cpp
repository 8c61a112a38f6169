#include "cache/survey.hpp"

#include "base/file.hpp"
#include "cache/entries.hpp"
#include "cache/layout.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

namespace file = kda::base::file;
using namespace kda::cache;
using kda::test::fresh_origin_of;
using kda::test::key_for;
using kda::test::Scratch;

// The bug: kda-tune cache ls held every cubin of the cache at once, 450 MB where 393 MB lay.
TEST_CASE("a survey says how large cubins are and holds none") {
  const Scratch scratch;
  CHECK(fresh_origin_of(scratch.path()) == Origin::built);
  const std::vector<Filed> all = survey(scratch.path());
  REQUIRE(all.size() == 1);
  CHECK(all[0].trouble.empty());
  CHECK_FALSE(all[0].stored.key.empty());
  CHECK(all[0].stored.cubin_bytes > 0);
  CHECK(all[0].stored.entry.cubin.empty());
}

// No look-up finds it there, and a bundle of what a cache holds would have it twice.
TEST_CASE("a whole entry under another key's name is none") {
  const Scratch scratch;
  CHECK(fresh_origin_of(scratch.path(), "a") == Origin::built);
  CHECK(fresh_origin_of(scratch.path(), "b") == Origin::built);
  const Layout at(scratch.path());
  const std::string there = at.entry(key_for("b").digest());
  std::string contents;
  REQUIRE(file::read(at.entry(key_for("a").digest()), kMaxFileBytes, contents) == 0);
  REQUIRE(file::publish(scratch.path(), there, contents) == 0);
  const std::vector<Filed> all = survey(scratch.path());
  REQUIRE(all.size() == 2);
  for (const Filed& filed : all) {
    CHECK(filed.trouble == (filed.path == there ? "it lies under another key's name" : ""));
    CHECK_FALSE(filed.unreadable);
  }
}
