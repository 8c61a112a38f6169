#include "cache/nearest.hpp"

#include "support/catch.hpp"

using kda::cache::differences;
using kda::cache::Fields;
using kda::cache::Key;
using kda::cache::nearest;
using kda::cache::shortened;
using kda::cache::Stored;
using kda::test::contains;

namespace {

Key key_of(const Fields& fields) {
  Key key;
  for (const auto& [name, value] : fields) key.add(name, value);
  return key;
}

Stored stored_of(const Fields& fields) {
  return {.key_text = key_of(fields).text(), .key = fields, .entry = {.entry = fields[0].second}};
}

const Fields ours = {{"entry", "k"}, {"source", "s"}, {"option", "-a"}, {"option", "-b"}};

}  // namespace

TEST_CASE("differences are of fields of one name in their order") {
  CHECK(differences(ours, ours).empty());
  const auto found = differences(
      ours, {{"entry", "k"}, {"source", "t"}, {"option", "-a"}, {"option", "-c"}, {"new", "1"}});
  REQUIRE(found.size() == 3);
  CHECK(found[0].field == "option");
  CHECK(found[0].here == "-b");
  CHECK(found[0].there == "-c");
  CHECK(found[1].field == "source");
  CHECK(found[2].field == "new");
  CHECK(found[2].here.empty());
  CHECK(differences(ours, {{"entry", "k"}}).size() == 3);
}

TEST_CASE("the nearest is the entry of the same kernel that differs in least") {
  Fields one = ours, two = ours, other = ours;
  one[1].second = "t";
  two[1].second = two[2].second = "t";
  other[0].second = "another kernel";
  const std::vector<Stored> entries = {stored_of(two), stored_of(other), stored_of(one)};
  const auto found = nearest(key_of(ours), entries);
  REQUIRE(found);
  CHECK(found->stored == &entries[2]);
  CHECK(found->differences.size() == 1);
  CHECK_FALSE(nearest(key_of(ours), {}));
  CHECK_FALSE(nearest(key_of({{"entry", "none"}}), entries));
}

TEST_CASE("long values are shown where they part") {
  const std::string before(200, 'x'), after(200, 'y');
  const auto shown =
      shortened({"source", before + " .shards = 1}\n" + after, before + " .shards = 2}\n" + after});
  CHECK_THAT(shown.here, contains(".shards = 1} y"));
  CHECK_THAT(shown.there, contains(".shards = 2}"));
  CHECK(shown.here.size() < 70);
  CHECK(shortened({"target", "sm_89", "sm_90a"}).here == "sm_89");
  CHECK(shortened({"source", before, before + "z"}).there.ends_with("z"));
}
