#include "compile/toolchain.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"
#include "compile/note.hpp"
#include "compile/nvrtc.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

namespace compile = kda::compile;
namespace file = kda::base::file;
using kda::test::contains;
using kda::test::note_of;
using kda::test::run_case_apart;
using kda::test::Scratch;
using kda::test::settings_of_note;

namespace {

std::string note_in(const Scratch& scratch) {
  std::string text;
  (void)file::read(scratch / "toolchain.txt", 1 << 16, text);
  return text;
}

}  // namespace

TEST_CASE("apart: say the identity", "[.]") {
  const auto identity = compile::identity();
  std::cout << (identity ? *identity : identity.status().message()) << "\n";
}

static const char* const kIdentity = "apart: say the identity";

TEST_CASE("a toolchain that was opened once is known again without opening it") {
  const Scratch scratch;
  const std::string identity = *compile::identity();
  const auto run = [&](const char* log) {
    return run_case_apart(kIdentity, {{"KDA_CACHE_DIR", scratch.path()}, {"KDA_LOG", log}}).output;
  };
  CHECK_THAT(run("info"), contains(identity) && contains("NVRTC 1"));
  const std::string note = note_in(scratch);
  CHECK_THAT(note, contains("build=\"CL-"));
  CHECK_THAT(run("info"), contains(identity) && !contains("info: NVRTC"));
  CHECK(note_in(scratch) == note);
}

TEST_CASE("a note that is false or damaged is not believed") {
  const Scratch scratch;
  const std::string identity = *compile::identity();
  const auto run = [&] {
    return run_case_apart(kIdentity, {{"KDA_CACHE_DIR", scratch.path()}}).output;
  };
  CHECK_THAT(run(), contains(identity));
  const std::string good = note_in(scratch);
  for (const char* stale : {"stamps=\"x", "inputs=1"}) {
    std::string settings = settings_of_note(good);
    const std::size_t at = settings.find(std::string(stale, 7));
    settings.replace(at, std::string(stale).size(), stale);
    settings.replace(settings.find("CL-"), 4, "CL-X");
    REQUIRE(file::publish(scratch.path(), scratch / "toolchain.txt", note_of(settings)) == 0);
    CHECK_THAT(run(), contains(identity) && !contains("CL-X"));
  }
  // The bug: a bent digit was part of the name of every kernel that was compiled from then on.
  std::string bent = good;
  char& digit = bent.at(bent.find("CL-") + 3);
  digit = digit == '9' ? '8' : '9';
  for (const std::string& damaged :
       {good.substr(0, good.size() / 2), std::string("\0\n=", 3), bent}) {
    REQUIRE(file::publish(scratch.path(), scratch / "toolchain.txt", damaged) == 0);
    CHECK_THAT(run(), contains(identity));
  }
}

// The bug: a half-written note stayed in the cache's root, where nobody sweeps.
TEST_CASE("a note is written where the cache sweeps") {
  const Scratch scratch;
  const auto apart = run_case_apart(kIdentity, {{"KDA_CACHE_DIR", scratch.path()}});
  CHECK_FALSE(note_in(scratch).empty());
  std::vector<std::string> names;
  REQUIRE(file::list(scratch.path(), names) == 0);
  CHECK(names == std::vector<std::string>{"toolchain.txt", "v1"});
  REQUIRE(file::list(scratch / "v1/tmp", names) == 0);
  CHECK(names.empty());
}

TEST_CASE("KDA_CACHE=off and ro leave no note") {
  for (const char* mode : {"off", "ro"}) {
    const Scratch scratch;
    const auto apart =
        run_case_apart(kIdentity, {{"KDA_CACHE_DIR", scratch.path()}, {"KDA_CACHE", mode}});
    CHECK_THAT(apart.output, contains(*compile::identity()));
    CHECK(note_in(scratch).empty());
  }
}

TEST_CASE("a place where no note can be kept does no harm") {
  const auto apart = run_case_apart(kIdentity, {{"KDA_CACHE_DIR", "/dev/null/kda"}});
  CHECK_THAT(apart.output, contains(*compile::identity()));
}

// The bug: a note was believed whoever had written it, so that who could once write a cache's
// directory chose which library was loaded.
TEST_CASE("a note of another user, or that others may write, is not believed") {
  const Scratch scratch;
  const std::string identity = *compile::identity();
  const auto run = [&] {
    return run_case_apart(kIdentity, {{"KDA_CACHE_DIR", scratch.path()}, {"KDA_LOG", "info"}})
        .output;
  };
  CHECK_THAT(run(), contains("info: NVRTC"));
  const std::string note = scratch / "toolchain.txt";
  CHECK_THAT(run(), !contains("info: NVRTC"));
  REQUIRE(::chmod(note.c_str(), 0666) == 0);
  CHECK_THAT(run(), contains("info: NVRTC") && contains(identity));
  if (::geteuid() != 0) return;
  REQUIRE(::chmod(note.c_str(), 0600) == 0);
  REQUIRE(::chown(note.c_str(), 12345, 12345) == 0);
  CHECK_THAT(run(), contains("info: NVRTC") && contains(identity));
}

TEST_CASE("apart: open what the note says", "[.]") {
  const auto identity = compile::open_identity();
  std::cout << (identity ? *identity : identity.status().message()) << "\n";
}

// The bug: once a note was believed no other library was looked for, so that one that no longer
// opened failed every run.
TEST_CASE("where what a note names does not open the search goes on") {
  const Scratch scratch;
  const std::string identity = *compile::identity();
  const auto run = [&](const char* test) {
    return run_case_apart(test, {{"KDA_CACHE_DIR", scratch.path()}, {"KDA_LOG", "info"}}).output;
  };
  CHECK_THAT(run(kIdentity), contains(identity));
  // The same note, of a library that is none.
  const std::string library = scratch / "libnvrtc.so";
  REQUIRE(file::publish(scratch.path(), library, "none") == 0);
  auto settings = *kda::base::parse_settings(settings_of_note(note_in(scratch)));
  std::string stamp;
  REQUIRE(file::stamp(library, stamp) == 0);
  for (auto& [name, value] : settings) {
    if (name == "path") value = library;
    if (name == "stamps") value = stamp + "; ";
  }
  REQUIRE(file::publish(scratch.path(), scratch / "toolchain.txt",
                        note_of(kda::base::to_text(settings))) == 0);
  CHECK_THAT(run("apart: open what the note says"),
             contains("looking for NVRTC again") && contains(identity));
  CHECK_THAT(run(kIdentity), !contains(library) && contains(identity));
}
