#include "cache/survey.hpp"

#include "cache/entries.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

using namespace kda::cache;
using kda::test::fresh_origin_of;
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
