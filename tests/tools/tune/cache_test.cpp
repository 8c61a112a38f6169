// kda-tune cache and kda-tune bundle.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>

#include "base/fault.hpp"
#include "base/file.hpp"
#include "base/trust.hpp"
#include "cache/layout.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/json.hpp"
#include "tools/tune/kda_tune.hpp"

using namespace kda;
using kda::test::Json;

namespace {

Json json_of(std::vector<std::string> arguments, int code = 0) {
  arguments.insert(arguments.end(), {"-o", "json"});
  const test::Ran ran = test::kda_tune(std::move(arguments));
  INFO(ran.err);
  REQUIRE(ran.code == code);
  return Json::parse(ran.out);
}

// Two kernels, of two targets, which do not spill.
void fill(const std::string& cache, const std::string& bundle) {
  const test::Ran ran =
      test::kda_tune({"bundle", "create", bundle, "T=64 H=2 K=16 V=16", "--strategy", "recurrent",
                      "--arch", "sm_89,sm_90a", "--cache-dir", cache, "-q"});
  INFO(ran.err);
  REQUIRE(ran.code == 0);
}

}  // namespace

TEST_CASE("the cache as kda-tune shows and keeps it", "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "c";
  fill(dir, scratch / "k.kdab");
  CHECK(test::kda_tune({"cache", "path", "--cache-dir", dir}).out == dir + "\n");

  const Json stats = json_of({"cache", "stats", "--cache-dir", dir});
  CHECK(stats["targets"].size() == 2);
  CHECK(stats["cache"][1]["value"] == 2);
  const Json all = json_of({"cache", "ls", "--cache-dir", dir});
  REQUIRE(all["entries"].size() == 2);
  const Json some = json_of({"cache", "ls", "--cache-dir", dir, "--arch", "sm_89"});
  REQUIRE(some["entries"].size() == 1);
  const std::string key = test::text(some["entries"][0]["key"]);
  const Json shown = json_of({"cache", "show", key.substr(0, 8), "--cache-dir", dir});
  CHECK(test::text(shown["entry"][0]["target"]) == "sm_89");
  CHECK(shown["key fields"].size() > 6);
  CHECK(test::kda_tune({"cache", "show", "", "--cache-dir", dir}).code == 1);  // both begin so
  CHECK(test::kda_tune({"cache", "verify", "--cache-dir", dir}).code == 0);

  const cache::Layout at(dir);
  REQUIRE(base::file::publish(scratch.path(), at.entry(key), "damaged") == 0);
  const Json damaged = json_of({"cache", "verify", "--cache-dir", dir}, 1);
  CHECK(test::text(damaged["damaged"][0]["path"]) == at.entry(key));
  CHECK(at.entries().size() == 2);
  json_of({"cache", "verify", "--remove", "--cache-dir", dir}, 1);
  CHECK(at.entries().size() == 1);

  CHECK(json_of({"cache", "clear", "--cache-dir", scratch / "d"})["clear"][0]["entries_kept"] == 0);
  CHECK(test::kda_tune({"cache", "gc", "--max-size", "much", "--cache-dir", dir}).code == 2);
  CHECK(json_of({"cache", "gc", "--cache-dir", dir})["gc"][0]["entries_removed"] == 0);
  CHECK(json_of({"cache", "gc", "--max-size", "1K", "--cache-dir",
                 dir})["gc"][0]["entries_removed"] == 1);
  CHECK(at.entries().empty());
}

// The bug: ls compared --arch with the entries' targets letter by letter: of an h200 or an sm_90 it
// said "none", and of a device that there is not, too.
TEST_CASE("cache ls takes the devices that all else takes", "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "c";
  fill(dir, scratch / "k.kdab");
  for (const char* arch : {"h200", "sm_90", "sm_90a"}) {
    INFO(arch);
    const Json some = json_of({"cache", "ls", "--cache-dir", dir, "--arch", arch})["entries"];
    REQUIRE(some.size() == 1);
    CHECK(test::text(some[0]["target"]) == "sm_90a");
  }
  CHECK(json_of({"cache", "ls", "--cache-dir", dir, "--arch", "l4,h100"})["entries"].size() == 2);
  CHECK(json_of({"cache", "ls", "--cache-dir", dir, "--arch", "a100"})["entries"].empty());
  const test::Ran none = test::kda_tune({"cache", "ls", "--cache-dir", dir, "--arch", "nosuch"});
  CHECK(none.code == 2);
  CHECK_THAT(none.err, test::contains("device \"nosuch\" is not known"));
}

// The bug: clear left a directory that the library had set aside, with exit code 0, and verify
// --remove one that lies under an entry's name.
TEST_CASE("clear and verify --remove take directories away, too", "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "c";
  fill(dir, scratch / "k.kdab");
  const cache::Layout at(dir);
  const std::string entry = at.entries().at(0);
  REQUIRE(base::file::remove(entry) == 0);
  REQUIRE(base::file::make_directories(entry + "/inside") == 0);
  REQUIRE(base::file::make_directories(at.bad() + "/there/inside") == 0);
  const Json damaged = json_of({"cache", "verify", "--remove", "--cache-dir", dir}, 1)["damaged"];
  REQUIRE(damaged.size() == 1);
  CHECK(damaged[0]["removed"] == true);
  CHECK(at.entries().size() == 1);
  const Json cleared = json_of({"cache", "clear", "--cache-dir", dir})["clear"][0];
  CHECK(cleared["leftovers_removed"] == 1);
  CHECK(cleared["leftovers_kept"] == 0);
  CHECK(at.set_aside().empty());
}

// The bug: clear took half-written files away, so that a measurement that was about to be kept was
// lost: "measurements stay".
TEST_CASE("clear leaves what is being written", "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "c";
  fill(dir, scratch / "k.kdab");
  const cache::Layout at(dir);
  for (const std::string& folder : {at.temporary(), at.wisdom_temporary()}) {
    REQUIRE(base::file::make_directories(folder) == 0);
    REQUIRE(base::file::publish(scratch.path(), folder + "/123.4", "half") == 0);
  }
  const Json cleared = json_of({"cache", "clear", "--cache-dir", dir})["clear"][0];
  CHECK(cleared["leftovers_removed"] == 0);
  CHECK(cleared["leftovers_kept"] == 0);
  CHECK(at.temporaries().size() == 2);
}

// The bug: a limit that is none was taken for the default, and entries were removed down to that.
TEST_CASE("gc removes nothing where KDA_CACHE_MAX_SIZE is no size", "[tools]") {
  const test::Scratch scratch;
  const test::Environment limit("KDA_CACHE_MAX_SIZE", "-1");
  const test::Ran ran = test::kda_tune({"cache", "gc", "--cache-dir", scratch / "c"});
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, test::contains("KDA_CACHE_MAX_SIZE \"-1\": a size such as 500M"));
  CHECK(test::kda_tune({"cache", "gc", "--max-size", "1G", "--cache-dir", scratch / "c"}).code ==
        0);
  CHECK(test::kda_tune({"cache", "stats", "--cache-dir", scratch / "c"}).code == 0);
}

// The bug: of a cache that could not be read verify said "0 entries, 0 damaged", clear that nothing
// was left, and doctor that it was fine; and gc made one where there was none.
TEST_CASE("a cache that cannot be looked into is not called sound", "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "c";
  REQUIRE(base::file::make_directories(dir + "/v1") == 0);
  std::ofstream(dir + "/v1/objects") << "a file";
  for (const char* command : {"verify", "clear", "gc", "stats", "ls"}) {
    INFO(command);
    const test::Ran ran = test::kda_tune({"cache", command, "--cache-dir", dir});
    CHECK(ran.code == 1);
    CHECK_THAT(ran.err, test::contains("v1/objects: Not a directory"));
  }
  const test::Environment here("KDA_CACHE_DIR", dir);
  const Json checks = json_of({"doctor"}, 1)["checks"];
  CHECK_THAT(checks.dump(), test::contains("it cannot be looked into"));
  CHECK(test::kda_tune({"cache", "gc", "--cache-dir", scratch / "none"}).code == 0);
  CHECK_FALSE(std::filesystem::exists(scratch / "none"));
}

// The bug: doctor called it "memory only", as if KDA_CACHE=off had been asked for.
TEST_CASE("doctor says why the library does not use a cache", "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "c";
  REQUIRE(base::file::make_directories(dir) == 0);
  const test::Environment here("KDA_CACHE_DIR", dir);
  const auto cache_row = [] {
    const Json document = Json::parse(test::kda_tune({"doctor", "-o", "json"}).out);
    for (const Json& check : document["checks"]) {
      if (check["check"] == "cache") return check;
    }
    return Json();
  };
  CHECK(test::text(cache_row()["state"]) == "ok");
  REQUIRE(::chmod(dir.c_str(), 0775) == 0);
  const Json row = cache_row();
  CHECK(test::text(row["state"]) == "bad");
  CHECK(test::kda_tune({"doctor"}).code == 1);
  const std::string why = base::distrust(dir);
  REQUIRE_THAT(why, test::contains("may be written by others"));
  CHECK(test::text(row["found"]) == "the library does not use it: " + why);
  CHECK_THAT(test::kda_tune({"cache", "ls"}).err, test::contains(why));
  {
    const test::Environment off("KDA_CACHE", "off");
    CHECK(test::text(cache_row()["state"]) == "none");
  }
  const test::Environment trusting("KDA_CACHE_TRUST_SHARED", "1");
  CHECK(test::text(cache_row()["state"]) == "ok");
}

// The bug: gc said that nothing was left, and was done.
TEST_CASE("gc fails where it may not remove", "[tools]") {
  const test::Scratch scratch;
  fill(scratch / "c", scratch / "k.kdab");
  REQUIRE(::chmod((scratch / "c/v1").c_str(), 0775) == 0);
  const test::Ran ran = test::kda_tune({"cache", "gc", "--cache-dir", scratch / "c"});
  CHECK(ran.code == 1);
  CHECK_THAT(ran.err, test::contains("nothing was removed: ") && test::contains("by others"));
}

// The bug: doctor complained of those variables alone that it happened to read, and said nothing of
// places in KDA_CACHE_PATH that are not there.
TEST_CASE("doctor looks at every word of the environment", "[tools]") {
  const test::Scratch scratch;
  const test::Environment jit("KDA_JIT", "maybe"), size("KDA_CACHE_MAX_SIZE", "much"),
      path("KDA_CACHE_PATH", scratch / "missing.kdab");
  const std::string checks = json_of({"doctor"}, 1)["checks"].dump();
  CHECK_THAT(checks, test::contains("KDA_JIT="));
  CHECK_THAT(checks, test::contains("KDA_CACHE_MAX_SIZE="));
  CHECK_THAT(checks, test::contains("missing.kdab: No such file"));
}

// The bug: a link to a bundle, as mounted volumes and build trees have them, was refused.
TEST_CASE("a bundle may be named by a link", "[tools]") {
  const test::Scratch scratch;
  fill(scratch / "c", scratch / "k.kdab");
  std::filesystem::create_symlink("k.kdab", scratch / "link.kdab");
  CHECK(test::kda_tune({"bundle", "verify", scratch / "link.kdab"}).code == 0);
}

// Of a kernel that spills a bundle has the one that takes its place, and it too, which says so.
TEST_CASE("a bundle serves who does not compile, spills or not", "[tools]") {
  const test::Scratch scratch;
  const std::string problem = "T=64 H=2 K=32 V=16", file = scratch / "k.kdab";
  REQUIRE(test::kda_tune({"bundle", "create", file, problem, "--strategy", "recurrent", "--arch",
                          "sm_89", "--cache-dir", scratch / "c", "-q"})
              .code == 0);
  const test::Environment path("KDA_CACHE_PATH", file), off("KDA_JIT", "off");
  const test::Ran ran = test::kda_tune({"build", problem, "--strategy", "recurrent", "--arch",
                                        "sm_89", "--cache-dir", scratch / "d", "-q", "-o", "json"});
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(Json::parse(ran.out)["kernels"][0]["spill_bytes"] == 0);
  // The bug: without an NVRTC explain ended, which who misses a kernel is told to ask.
  const test::Environment none("KDA_NVRTC_PATH", "/nonexistent");
  CHECK(test::kda_tune({"explain", problem, "--strategy", "recurrent", "--arch", "sm_89",
                        "--cache-dir", scratch / "e"})
            .code == 0);
}

TEST_CASE("a bundle is made, listed and verified; a damaged one says so", "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "c", file = scratch / "k.kdab";
  fill(dir, file);
  CHECK(json_of({"bundle", "ls", file})["entries"].size() == 2);
  CHECK(test::kda_tune({"bundle", "verify", file}).code == 0);
  const test::Ran again = test::kda_tune(
      {"bundle", "create", scratch / "same.kdab", "--from-cache", "--cache-dir", dir, "-q"});
  CHECK(again.code == 0);
  std::string one, two;
  REQUIRE(base::file::read(file, 1 << 24, one) == 0);
  REQUIRE(base::file::read(scratch / "same.kdab", 1 << 24, two) == 0);
  CHECK(one == two);

  one[one.size() - 100] = static_cast<char>(~one[one.size() - 100]);
  REQUIRE(base::file::publish(scratch.path(), file, one) == 0);
  CHECK(json_of({"bundle", "verify", file}, 1)["damaged"].size() == 1);
  REQUIRE(base::file::publish(scratch.path(), file, one.substr(0, 100)) == 0);
  const test::Ran cut = test::kda_tune({"bundle", "ls", file});
  CHECK(cut.code == 1);
  CHECK_THAT(cut.err, test::contains("bundle " + file));
  CHECK(test::kda_tune({"bundle", "create", scratch / "none.kdab", "--from-cache", "--cache-dir",
                        scratch / "empty"})
            .code == 1);
}

// The bug: the bundle went to stdout once all was compiled, and then no file "-" was found; nor was
// a path that cannot be written refused before.
TEST_CASE("a bundle goes to a file that can be written, known before it is compiled", "[tools]") {
  const test::Scratch scratch;
  for (const std::string file : {"-", "/nonexistent/k.kdab"}) {
    const test::Ran ran =
        test::kda_tune({"bundle", "create", file, "T=64 H=2 K=16 V=16", "--strategy", "recurrent",
                        "--arch", "sm_89", "--cache-dir", scratch / "c"});
    INFO(ran.err);
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    CHECK_THAT(ran.err, test::contains(file));
    CHECK_FALSE(std::filesystem::exists(scratch / "c"));
  }
}

// The bug: a bundle for a bare target had the kernels that a plan for that name gets, and not those
// of a plan on a device, whose multiprocessors and measurements choose others: one for sm_90a was
// no use to an H200 in 8 of the 23 cases.
TEST_CASE("a bundle for a bare target serves its devices", "[tools][compile]") {
  const test::Scratch scratch;
  const std::string file = scratch / "k.kdab", dir = scratch / "c";
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"T=64 H=8", "--strategy", "recurrent", "--cache-dir", dir});
    return words;
  };
  const auto keys_in = [](const Json& rows) {
    std::set<std::string> keys;
    for (const Json& row : rows) keys.insert(test::text(row["key"]));
    return keys;
  };
  const auto keys_for = [&](const char* device) {
    return keys_in(json_of(with({"explain", "--arch", device}))["kernels"]);
  };
  json_of(with({"bundle", "create", file, "--arch", "sm_89"}));
  const std::set<std::string> held = keys_in(json_of({"bundle", "ls", file})["entries"]);
  for (const char* device : {"sm_89", "l40s", "l4", "rtx4090"}) {
    const auto wanted = keys_for(device);
    INFO(device);
    CHECK(std::includes(held.begin(), held.end(), wanted.begin(), wanted.end()));
  }
  REQUIRE(keys_for("sm_89") != keys_for("l4"));
  // Who names a device gets no others' kernels.
  json_of(with({"bundle", "create", file, "--arch", "l4"}));
  CHECK(keys_in(json_of({"bundle", "ls", file})["entries"]) == keys_for("l4"));
}

// The bug: "there is no kernel to put into a bundle", and not why.
TEST_CASE("a bundle of nothing says why nothing could be served", "[tools]") {
  const test::Scratch scratch;
  const test::Ran ran =
      test::kda_tune({"bundle", "create", scratch / "k.kdab", "T=64 H=2", "--strategy", "fused",
                      "--arch", "l4", "--cache-dir", scratch / "c", "-q"});
  CHECK(ran.code == 1);
  CHECK_THAT(ran.err, test::contains(
                          "bundle: T=64 H=2 for l4: strategy fused does not serve this problem") &&
                          test::contains("compute capability 8.9; wgmma is 9.0's"));
}

TEST_CASE("explain names the key field that differs from the nearest entry", "[tools]") {
  const test::Scratch scratch;
  fill(scratch / "c", scratch / "k.kdab");
  const Json document = json_of({"explain", "T=64 H=2 K=48 V=16", "--strategy", "recurrent",
                                 "--arch", "sm_89", "--cache-dir", scratch / "c"});
  REQUIRE(document["nearest"].size() == 1);
  CHECK(test::text(document["nearest"][0]["field"]) == "source");
  CHECK_THAT(test::text(document["nearest"][0]["here"]), test::contains(".key_dim = 48"));
  CHECK_THAT(test::text(document["nearest"][0]["there"]), test::contains(".key_dim = 16"));
  const Json hit = json_of({"explain", "T=64 H=2 K=16 V=16", "--strategy", "recurrent", "--arch",
                            "sm_89", "--cache-dir", scratch / "c"});
  CHECK_FALSE(hit.contains("nearest"));
}

TEST_CASE("cache and bundle help with examples", "[tools]") {
  for (const char* group : {"cache", "bundle"}) {
    const test::Ran ran = test::kda_tune({group, "--help"});
    CHECK(ran.code == 0);
    CHECK_THAT(ran.out, test::contains(std::string("Examples:\n  kda-tune ") + group));
    CHECK(test::kda_tune({group}).code == 2);
  }
}

// The bug: --from-cache took all that the cache holds whatever else was said, which shows where
// there is no compiler.
TEST_CASE("a bundle from the cache is for the targets named, and for nothing that is compiled",
          "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "c", file = scratch / "one.kdab";
  fill(dir, scratch / "k.kdab");
  const auto create = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"bundle",      "create", file, "--from-cache",
                                      "--cache-dir", dir,      "-q"};
    words.insert(words.end(), more.begin(), more.end());
    return test::kda_tune(std::move(words));
  };
  CHECK(create({"--arch", "h200"}).code == 0);
  const Json entries = json_of({"bundle", "ls", file})["entries"];
  REQUIRE(entries.size() == 1);
  CHECK(entries[0]["target"] == "sm_90a");
  CHECK(create({"--arch", "sm_80"}).code == 1);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"T=1 H=1"}, {"--strategy", "chunk"}, {"--every-tuning"}}) {
    const test::Ran ran = create(words);
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains(words[0]) && test::contains("--from-cache"));
  }
}

// The bug: entries that could not be read, for another user's or a failing disk's sake, were called
// damaged, and --remove took them away.
TEST_CASE("what cannot be read is not called damaged", "[tools]") {
  const test::Scratch scratch;
  fill(scratch / "c", scratch / "k.kdab");
  base::fault::hook() = [](const char* step) { return std::string_view(step) == "open" ? EIO : 0; };
  const test::Ran ran =
      test::kda_tune({"cache", "verify", "--remove", "--cache-dir", scratch / "c", "-o", "json"});
  base::fault::hook() = nullptr;
  CHECK(ran.code == 1);
  const Json said = Json::parse(ran.out);
  CHECK(said["damaged"].empty());
  REQUIRE(said["unreadable"].size() == 2);
  CHECK_THAT(said["unreadable"][0]["why"].get<std::string>(), test::contains("EIO"));
  CHECK(cache::Layout(scratch / "c").entries().size() == 2);
}

// The bug: a name that a script left empty was the user's own cache, which was cleared.
TEST_CASE("an empty directory or size is refused, and nothing is removed", "[tools]") {
  const test::Scratch scratch;
  fill(scratch / "c", scratch / "k.kdab");
  const test::Environment own("KDA_CACHE_DIR", scratch / "c");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"cache", "clear", "--cache-dir", ""},
        {"cache", "gc", "--max-size", ""},
        {"wisdom", "prune", "--all", "--wisdom-dir", ""},
        {"tune", "h64", "--wisdom-dir", ""},
        {"build", "h64", "--cache-dir", ""}}) {
    const test::Ran ran = test::kda_tune(words);
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains("an empty"));
  }
  CHECK(cache::Layout(scratch / "c").entries().size() == 2);
}

// The bug: what KDA_CACHE=ro keeps a plan from writing clear, gc and verify --remove took away.
TEST_CASE("nothing is removed of a cache that is not to be written", "[tools]") {
  const test::Scratch scratch;
  const std::string dir = scratch / "c";
  fill(dir, scratch / "k.kdab");
  for (const char* mode : {"ro", "off"}) {
    const test::Environment cache("KDA_CACHE", mode);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"clear"}, {"gc", "--max-size", "1K"}, {"verify", "--remove"}}) {
      std::vector<std::string> all = {"cache"};
      all.insert(all.end(), words.begin(), words.end());
      all.insert(all.end(), {"--cache-dir", dir});
      const test::Ran ran = test::kda_tune(all);
      CHECK(ran.code == 1);
      CHECK_THAT(ran.err, test::contains("nothing was removed: KDA_CACHE is " + std::string(mode)));
    }
    CHECK(test::kda_tune({"cache", "verify", "--cache-dir", dir}).code == 0);
  }
  CHECK(cache::Layout(dir).entries().size() == 2);
}
