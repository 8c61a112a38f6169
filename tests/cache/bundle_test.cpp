#include "cache/bundle.hpp"

#include "base/digest.hpp"
#include "base/file.hpp"
#include "cache/entries.hpp"
#include "cache/layout.hpp"
#include "cache/shipped.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

namespace file = kda::base::file;
using kda::cache::Bundle;
using kda::cache::Cache;
using kda::cache::Key;
using kda::cache::Origin;
using kda::cache::portable_digest;
using kda::test::contains;
using kda::test::entry_for;
using kda::test::Environment;
using kda::test::key_for;
using kda::test::origin_of;
using kda::test::Scratch;
using kda::test::Warnings;

namespace {

Key key_by(const std::string& source, const std::string& compiler) {
  Key key = key_for(source);
  key.add("compiler", compiler);
  return key;
}

std::string file_of(const std::string& source, const std::string& compiler) {
  return kda::cache::encode(key_by(source, compiler), entry_for(source));
}

std::string two() {
  return kda::cache::encode_bundle({file_of("a", "nvrtc 1"), file_of("b", "nvrtc 1")});
}

std::shared_ptr<const Bundle> opened(const std::string& bytes) {
  const auto bundle = Bundle::open("test", bytes);
  INFO(bundle.status().message());
  REQUIRE(bundle);
  return *bundle;
}

}  // namespace

TEST_CASE("a bundle gives its entries back, by what was compiled and not by what compiled it") {
  const std::string bytes = two();
  const auto bundle = opened(bytes);
  CHECK(bundle->size() == 2);
  const auto found = bundle->find(portable_digest(key_for("b").fields()));
  REQUIRE(found.size() == 1);
  CHECK(found[0] == file_of("b", "nvrtc 1"));
  CHECK(bundle->find(portable_digest(key_for("c").fields())).empty());
  CHECK(portable_digest(key_by("a", "x").fields()) == portable_digest(key_by("a", "y").fields()));
}

TEST_CASE(
    "equal contents make equal bundles, in whatever order; damaged and double ones are left out") {
  const std::string a = file_of("a", "1"), b = file_of("b", "1"), other = file_of("a", "2");
  CHECK(kda::cache::encode_bundle({a, b}) == kda::cache::encode_bundle({b, a, b, a + "x", ""}));
  const std::string both = kda::cache::encode_bundle({a, other});
  CHECK(opened(both)->find(portable_digest(key_for("a").fields())).size() == 2);
  CHECK(opened(kda::cache::encode_bundle({}))->size() == 0);
}

TEST_CASE("no flipped byte and no cut of a bundle passes, in its index or in an entry") {
  const std::string bytes = two();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(~flipped[at]);
    const auto bundle = Bundle::open("test", flipped);
    if (!bundle) continue;
    int damaged = 0;
    for (std::size_t row = 0; row < (*bundle)->size(); ++row) {
      kda::cache::Stored stored;
      damaged += kda::cache::decode((*bundle)->entry(row), stored).empty() ? 0 : 1;
    }
    REQUIRE(damaged == 1);
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    REQUIRE_FALSE(Bundle::open("test", cut));
  }
  CHECK_THAT(Bundle::read("/nonexistent.kdab").status().message(), contains("ENOENT"));
}

TEST_CASE("a bundle in KDA_CACHE_PATH serves any compiler's key, unless the toolchain is strict") {
  const Scratch scratch;
  REQUIRE(file::publish(scratch.path(), scratch / "k.kdab", two()) == 0);
  const Environment path("KDA_CACHE_PATH", scratch / "k.kdab");
  {
    Cache cache(scratch / "own");
    REQUIRE(cache.bundles().size() == 1);
    const auto found = cache.find_shipped(key_for("a"));
    REQUIRE(found);
    CHECK(found->origin == Origin::bundle);
    CHECK(found->entry->cubin == entry_for("a").cubin);
    CHECK(cache.find_shipped(key_by("a", "nvrtc 2"))->origin == Origin::memory);
    CHECK_FALSE(cache.find_shipped(key_for("c")));
    CHECK(kda::cache::Layout(scratch / "own").entries().empty());
  }
  {
    const Environment strict("KDA_STRICT_TOOLCHAIN", "1");
    Cache cache(scratch / "own");
    CHECK_FALSE(cache.find_shipped(key_by("a", "nvrtc 1")));
    CHECK(cache.find(key_by("a", "nvrtc 1"))->origin == Origin::bundle);
    CHECK_FALSE(cache.find(key_by("a", "nvrtc 2")));
  }
  {
    const Environment flags("NVRTC_APPEND_FLAGS", "-lineinfo");
    Cache cache(scratch / "own");
    CHECK_FALSE(cache.find_shipped(key_for("a")));
  }
  const Environment off("KDA_CACHE", "off");
  CHECK(Cache("").bundles().empty());
}

TEST_CASE("a damaged entry of a bundle is a miss and a warning, once") {
  const Scratch scratch;
  std::string bytes = two();
  bytes[bytes.size() - 40] = static_cast<char>(~bytes[bytes.size() - 40]);
  REQUIRE(file::publish(scratch.path(), scratch / "k.kdab", bytes) == 0);
  const Environment path("KDA_CACHE_PATH", scratch / "k.kdab");
  Cache cache(scratch / "own");
  const Warnings warnings;
  const int found =
      (cache.find_shipped(key_for("a")) ? 1 : 0) + (cache.find_shipped(key_for("b")) ? 1 : 0);
  CHECK(found == 1);
  // The bug: each look told of it again, three a build and one a pause while another process built.
  for (const char* source : {"a", "b"}) {
    (void)cache.find_shipped(key_for(source));
    (void)cache.find(key_by(source, "nvrtc 1"));
  }
  REQUIRE(warnings.texts.size() == 1);
  CHECK_THAT(warnings.texts[0], contains("damaged"));
}

// A whole entry in the row of another would be launched in its place.
TEST_CASE("a bundle whose index names one kernel for another gives neither") {
  const Scratch scratch;
  std::string bytes = kda::cache::encode_bundle({file_of("a", "nvrtc 1")});
  constexpr std::size_t kRow = 16, kIndexEnd = kRow + kda::base::kDigestBytes + 16;
  bytes.replace(kRow, kda::base::kDigestBytes, portable_digest(key_for("b").fields()));
  bytes.replace(kIndexEnd, kda::base::kDigestBytes, kda::base::digest(bytes.substr(0, kIndexEnd)));
  REQUIRE(file::publish(scratch.path(), scratch / "k.kdab", bytes) == 0);
  const Environment path("KDA_CACHE_PATH", scratch / "k.kdab");
  Cache cache(scratch / "own");
  REQUIRE(cache.bundles().size() == 1);
  REQUIRE(cache.bundles()[0]->find(portable_digest(key_for("b").fields())).size() == 1);
  CHECK_FALSE(cache.find_shipped(key_for("b")));
  CHECK_FALSE(cache.find_shipped(key_for("a")));
}

TEST_CASE("a linked bundle is there for every cache, and twice the same is one") {
  static const std::string bytes = kda::cache::encode_bundle({file_of("linked", "nvrtc 1")});
  const std::size_t before = kda::cache::linked_bundles().size();
  CHECK(kda::cache::add_linked_bundle(bytes).ok());
  CHECK(kda::cache::add_linked_bundle(bytes).ok());
  CHECK(kda::cache::linked_bundles().size() == before + 1);
  CHECK_FALSE(kda::cache::add_linked_bundle("no bundle").ok());
  const Environment off("KDA_CACHE", "off");
  Cache cache("");
  CHECK(cache.find_shipped(key_for("linked"))->origin == Origin::bundle);
}

// The bug: of two compilers' entries the one whose compiler's text came first was taken, this
// machine's own or not, and one compiled by flags that nobody here asks for, too.
TEST_CASE("of several compilers' kernels in bundles the own compiler's is taken") {
  const Scratch scratch;
  const auto entry = [](const std::string& compiler) {
    return kda::cache::encode(key_by("a", compiler), entry_for("by " + compiler));
  };
  const std::string flagged = "nvrtc 1 NVRTC_APPEND_FLAGS=\"-lineinfo\"";
  const std::string bytes = kda::cache::encode_bundle(
      {entry("nvrtc 1"), entry("nvrtc 12.4"), entry("nvrtc 13"), entry(flagged)});
  REQUIRE(file::publish(scratch.path(), scratch / "k.kdab", bytes) == 0);
  const Environment path("KDA_CACHE_PATH", scratch / "k.kdab");
  const auto taken = [&](const char* own) {
    Cache cache(scratch / "own");
    const auto found = cache.find_shipped(key_for("a"), [&] { return std::string(own); });
    REQUIRE(found);
    return found->entry->cubin;
  };
  for (const char* own : {"nvrtc 1", "nvrtc 12.4", "nvrtc 13"}) {
    CHECK(taken(own) == entry_for(std::string("by ") + own).cubin);
  }
  for (const std::string& other : {std::string("nvrtc 11"), flagged}) {
    CHECK(taken(other.c_str()) != entry_for("by " + flagged).cubin);
  }

  // Who only looks finds what a plan would take.
  CHECK(Cache(scratch / "own").find(key_by("a", "nvrtc 13"))->entry->cubin ==
        entry_for("by nvrtc 13").cubin);

  REQUIRE(file::publish(scratch.path(), scratch / "k.kdab",
                        kda::cache::encode_bundle({entry("nvrtc 12.4"), entry(flagged)})) == 0);
  REQUIRE(file::publish(scratch.path(), scratch / "again.kdab",
                        kda::cache::encode_bundle({entry("nvrtc 12.4")})) == 0);
  const Environment both("KDA_CACHE_PATH", scratch / "k.kdab" + ":" + scratch / "again.kdab");
  Cache cache(scratch / "own");
  int asked = 0;
  const auto found = cache.find_shipped(key_for("a"), [&] {
    ++asked;
    return std::string();
  });
  REQUIRE(found);
  CHECK(found->entry->cubin == entry_for("by nvrtc 12.4").cubin);
  CHECK(asked == 0);  // of one there is nothing to choose
  for (const char* name : {"k.kdab", "again.kdab"}) {
    REQUIRE(file::publish(scratch.path(), scratch / name,
                          kda::cache::encode_bundle({entry(flagged)})) == 0);
  }
  CHECK_FALSE(Cache(scratch / "own").find_shipped(key_for("a")));
}
