#include "cache/entry_file.hpp"

#include "base/digest.hpp"
#include "cache/bytes.hpp"
#include "cache/entries.hpp"
#include "cache/fields.hpp"
#include "support/catch.hpp"

using kda::cache::decode;
using kda::cache::encode;
using kda::cache::Entry;
using kda::cache::Key;
using kda::test::contains;
using kda::test::entry_for;
using kda::test::key_for;

TEST_CASE("an entry survives a round trip") {
  const Entry before = entry_for("a");
  Entry after;
  REQUIRE(decode(encode(key_for("a"), before), key_for("a"), after).empty());
  CHECK(after.entry == before.entry);
  CHECK(after.target == before.target);
  CHECK(after.cubin == before.cubin);
  CHECK(after.resources.registers == 96);
  CHECK(after.resources.spill_bytes == 8);
  CHECK(after.resources.stack_bytes == 16);
  CHECK(after.resources.static_shared_bytes == 1024);
  CHECK(after.resources.serialized_wgmma == 1);
  CHECK(after.resources.compile_milliseconds == 12.5);
}

TEST_CASE("an entry of before wgmma was noted is still one") {
  std::string file = encode(key_for("a"), entry_for("a"));
  std::string field;
  kda::cache::append_field(field, "serialized_wgmma", "1");
  const std::size_t at = file.find(field);
  REQUIRE(at != std::string::npos);
  file.erase(at, field.size());
  std::string header_bytes;
  kda::cache::append_number(header_bytes, kda::cache::number_at(file, 8) - field.size());
  file.replace(8, 8, header_bytes);
  file.resize(file.size() - 32);  // the digest
  file += kda::base::digest(file);
  Entry entry;
  entry.resources.serialized_wgmma = 7;
  REQUIRE(decode(file, key_for("a"), entry).empty());
  CHECK(entry.resources.registers == 96);
  CHECK(entry.resources.serialized_wgmma == 0);
}

TEST_CASE("no flipped byte, no flipped bit, no cut and no tail passes for an entry") {
  const std::string file = encode(key_for("a"), entry_for("a"));
  Entry entry;
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (const int mask : {0xFF, 0x01, 0x20}) {  // 0x20: also the letter case of the digest
      std::string flipped = file;
      flipped[at] = static_cast<char>(flipped[at] ^ mask);
      REQUIRE_FALSE(decode(flipped, key_for("a"), entry).empty());
    }
    REQUIRE_FALSE(decode(file.substr(0, at), key_for("a"), entry).empty());
  }
  CHECK_FALSE(decode(file + " ", key_for("a"), entry).empty());
  CHECK_FALSE(decode(file + file, key_for("a"), entry).empty());
}

TEST_CASE("an entry of another key is refused though it is whole") {
  Entry entry;
  CHECK_THAT(decode(encode(key_for("a"), entry_for("a")), key_for("b"), entry),
             contains("another key"));
}

TEST_CASE("an entry for another target, or without code, is refused though its key fits") {
  Entry other = entry_for("a");
  other.target = "sm_89";
  Entry entry;
  CHECK_THAT(decode(encode(key_for("a"), other), key_for("a"), entry),
             contains("for \"sm_89\", not sm_90a"));
  Entry none = entry_for("a");
  none.cubin.clear();
  CHECK_THAT(decode(encode(key_for("a"), none), key_for("a"), entry), contains("empty"));
}
