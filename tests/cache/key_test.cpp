#include "cache/key.hpp"

#include <set>

#include "cache/fields.hpp"
#include "support/catch.hpp"

using kda::cache::append_field;
using kda::cache::Key;
using kda::cache::parse_fields;

namespace {

Key key_of(const std::vector<std::pair<std::string, std::string>>& fields) {
  Key key;
  for (const auto& [name, value] : fields) key.add(name, value);
  return key;
}

}  // namespace

TEST_CASE("equal fields make equal keys") {
  const Key one = key_of({{"source", "a"}, {"target", "sm_90a"}});
  const Key two = key_of({{"source", "a"}, {"target", "sm_90a"}});
  CHECK(one.text() == two.text());
  CHECK(one.digest() == two.digest());
  CHECK(one.digest().size() == 32);
  CHECK(one.fields().size() == 2);
}

TEST_CASE("every change of a field makes another key, and so does moving text between fields") {
  const std::vector<std::vector<std::pair<std::string, std::string>>> keys = {
      {{"source", "a"}, {"target", "b"}},
      {{"source", "ab"}, {"target", ""}},
      {{"source", ""}, {"target", "ab"}},
      {{"sourcea", ""}, {"target", "b"}},
      {{"source", "a"}, {"options", "b"}},
      {{"source", "b"}, {"target", "a"}},
      {{"target", "b"}, {"source", "a"}},
      {{"source", "a"}},
      {{"source", "a\n6:target=1:b"}},
      {{"source", "a"}, {"target", "b"}, {"x", ""}},
      {{"source", std::string("a\0", 2)}, {"target", "b"}},
  };
  std::set<std::string> texts;
  std::set<std::string> digests;
  for (const auto& fields : keys) {
    texts.insert(key_of(fields).text());
    digests.insert(key_of(fields).digest());
  }
  CHECK(texts.size() == keys.size());
  CHECK(digests.size() == keys.size());
}

TEST_CASE("fields survive a round trip whatever they hold") {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  std::string text;
  append_field(text, "empty", "");
  append_field(text, all, all);
  const auto fields = parse_fields(text);
  REQUIRE(fields);
  REQUIRE(fields->size() == 2);
  CHECK((*fields)[0].second.empty());
  CHECK((*fields)[1].first == all);
  CHECK((*fields)[1].second == all);
}

TEST_CASE("text that is not fields is refused") {
  std::string good;
  append_field(good, "name", "value");
  for (std::size_t bytes = 1; bytes < good.size(); ++bytes) {
    CHECK_FALSE(parse_fields(good.substr(0, bytes)));
  }
  for (const char* text : {"x", ":", "4:name", "4:name=", "4:name=99999999999999999999:v\n",
                           "4:name=18446744073709551615:v\n", "-1:n=1:v\n", "4:name 1:v\n"}) {
    INFO(text);
    CHECK_FALSE(parse_fields(text));
  }
}
