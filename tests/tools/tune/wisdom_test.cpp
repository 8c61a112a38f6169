// kda-tune wisdom and kda-tune compare.
#include "tune/wisdom.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/fault.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/json.hpp"
#include "tools/tune/kda_tune.hpp"
#include "tune/records.hpp"

using namespace kda;
using kda::test::Json;

namespace {

std::string out_of(const std::vector<std::string>& arguments, int code = 0) {
  const test::Ran ran = test::kda_tune(arguments);
  INFO(ran.err);
  REQUIRE(ran.code == code);
  return ran.out;
}

std::size_t lines_in(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

TEST_CASE("wisdom goes out, comes in, is merged and pruned", "[tools]") {
  const test::Scratch scratch;
  const std::string here = scratch / "here", there = scratch / "there";
  const Problem first = test::problem_in_words("T=300 H=2"),
                second = test::problem_in_words("T=600 H=2");
  {
    tune::Wisdom wisdom(here, "");
    REQUIRE(wisdom.add(test::record_of(first)));
    REQUIRE(wisdom.add(test::record_of(second)));
  }
  CHECK(out_of({"wisdom", "path", "--wisdom-dir", here}) == here + "\n");
  const Json listed =
      Json::parse(out_of({"wisdom", "ls", "--own", "--wisdom-dir", here, "-o", "json"}));
  REQUIRE(listed["records"].size() == 2);
  const std::string key = test::text(listed["records"][0]["key"]);
  CHECK_THAT(out_of({"wisdom", "show", key.substr(0, 10), "--wisdom-dir", here}),
             test::contains("time_us"));
  CHECK(test::kda_tune({"wisdom", "show", "zz", "--wisdom-dir", here}).code == 1);

  const std::string lines = out_of({"wisdom", "export", "--own", "--wisdom-dir", here});
  CHECK(lines_in(lines) == 2);
  std::ofstream(scratch / "a.jsonl") << lines;
  std::ofstream(scratch / "b.jsonl") << lines << "damage\n";
  CHECK(lines_in(out_of({"wisdom", "merge", scratch / "a.jsonl", scratch / "a.jsonl"})) == 2);
  CHECK(test::kda_tune({"wisdom", "import", scratch / "b.jsonl", "--wisdom-dir", there}).code == 1);
  out_of({"wisdom", "import", scratch / "b.jsonl", "--lenient", "--wisdom-dir", there});
  CHECK(lines_in(out_of({"wisdom", "export", "--own", "--wisdom-dir", there})) == 2);

  CHECK(test::kda_tune({"wisdom", "prune", "--wisdom-dir", there}).code == 2);
  CHECK(out_of({"wisdom", "verify", "--wisdom-dir", there, "-o", "jsonl"}).size() <= 1);
  CHECK(out_of({"wisdom", "prune", "--of-device", "NVIDIA H200", "--wisdom-dir", there}) ==
        "2 removed\n");

  // What was exported can be compared with itself.
  out_of({"compare", scratch / "a.jsonl", scratch / "a.jsonl", "--fail-on", "slow,gone,new"});
  std::string slower = lines;
  const std::size_t at = slower.find("\"median\":100");
  REQUIRE(at != std::string::npos);
  std::ofstream(scratch / "c.jsonl") << slower.replace(at, 12, "\"median\":140");
  CHECK(test::kda_tune({"compare", scratch / "a.jsonl", scratch / "c.jsonl", "--fail-on", "slow"})
            .code == 1);
  CHECK(test::kda_tune({"compare", scratch / "a.jsonl", scratch / "c.jsonl"}).code == 0);
  CHECK(test::kda_tune({"compare", scratch / "a.jsonl"}).code == 2);

  // The bug: what was said of two files was written over one of them.
  for (const char* over : {"a.jsonl", "./c.jsonl"}) {
    const test::Ran ran = test::kda_tune(
        {"compare", scratch / "a.jsonl", scratch / "c.jsonl", "--output", scratch / over});
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, test::contains("is one of the files compared"));
  }
  CHECK(test::kda_tune({"compare", scratch / "a.jsonl", scratch / "c.jsonl", "--fail-on", "slow"})
            .code == 1);
}

// The bug: import counted records as added that were kept nowhere: where KDA_CACHE forbids it, of a
// directory named as a file, and of the files before one that is refused it kept some all the same.
TEST_CASE("import keeps all that it counts, or says why not", "[tools]") {
  const test::Scratch scratch;
  const std::string good = scratch / "good.jsonl", bad = scratch / "bad.jsonl";
  std::ofstream(good) << tune::to_json(test::record_of(test::problem_in_words("T=300 H=2")))
                      << "\n";
  std::ofstream(bad) << "damage\n";
  {
    const test::Environment read_only("KDA_CACHE", "ro");
    const test::Ran ran =
        test::kda_tune({"wisdom", "import", good, "--wisdom-dir", scratch / "ro"});
    CHECK(ran.code == 1);
    CHECK_THAT(ran.err, test::contains("KDA_CACHE is ro"));
  }
  const test::Ran directory = test::kda_tune({"wisdom", "import", scratch.path()});
  CHECK(directory.code == 2);
  CHECK_THAT(directory.err, test::contains("Is a directory"));

  const std::string both = scratch / "both";
  CHECK(test::kda_tune({"wisdom", "import", good, bad, "--wisdom-dir", both}).code == 1);
  CHECK_FALSE(std::filesystem::exists(both));
  out_of({"wisdom", "import", good, "--wisdom-dir", both});
  CHECK(lines_in(out_of({"wisdom", "export", "--own", "--wisdom-dir", both})) == 1);
}

// The bug: find answered of any strategy whichever was named, with "none" where there was no device
// to ask for; and explain looked for measurements in the default directory, --cache-dir or not.
TEST_CASE("find and explain ask for what was named, where it was named", "[tools]") {
  const test::Scratch scratch;
  const std::vector<std::string> find = {"wisdom", "find", "h64", "--arch", "h200"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  CHECK_THAT(out_of(with(find, {"--strategy", "chunk"})), test::contains("chunk chunk="));
  CHECK(test::kda_tune(with(find, {"--strategy", "nosuch"})).code == 2);
  CHECK(test::kda_tune(with(find, {"--tuning", "chunk=32"})).code == 2);

  const tune::Record record = test::record_of(test::problem_in_words(
      "T=8192 H=64 qkv=bf16 g=bf16 beta=bf16 gate=bounded lower_bound=-5 beta_logit=1 "
      "l2norm=1 layout=value_first h0=1 ht=1"));
  const test::Environment unset("KDA_WISDOM_DIR", nullptr), asked("KDA_TUNE", "read");
  REQUIRE(tune::Wisdom(scratch / "wisdom", "").add(record));
  const Json explained = Json::parse(
      out_of({"explain", "h64", "--arch", "h200", "--cache-dir", scratch.path(), "-o", "json"}));
  std::string chosen;
  for (const Json& row : explained["candidates"]) {
    if (row["chosen"] == true) chosen = test::text(row["strategy"]);
  }
  CHECK(chosen == record.winner.strategy);
}

// The bug: records of a newer library were damage to verify and doctor, and --damaged removed them.
TEST_CASE("records of another version of the library are told apart from damaged ones", "[tools]") {
  const test::Scratch scratch;
  const std::string here = scratch / "here";
  const tune::Record record = test::record_of(test::problem_in_words("T=300 H=2"));
  REQUIRE(tune::Wisdom(here, "").add(record));
  const std::string folder = here + "/v1/" + digest(record.environment);
  const std::string path = folder + "/" + tune::key_digest(record.problem) + ".json";
  std::string text = to_json(record);
  text.replace(text.find("\"kda_wisdom\":1"), 14, "\"kda_wisdom\":2");
  std::ofstream(path) << text;
  const Json found = Json::parse(out_of({"wisdom", "verify", "--wisdom-dir", here, "-o", "json"}));
  CHECK(found["damaged"].empty());
  CHECK_THAT(test::text(found["not for this library"][0]["why"]), test::contains("newer"));
  CHECK(out_of({"wisdom", "prune", "--damaged", "--wisdom-dir", here}) == "0 removed\n");
  std::ofstream(path) << "damage";
  CHECK(out_of({"wisdom", "prune", "--damaged", "--wisdom-dir", here}) == "1 removed\n");
}

// The bug: find answered for the first of several strategies.
TEST_CASE("find takes one strategy", "[tools]") {
  const test::Ran two = test::kda_tune(
      {"wisdom", "find", "h64", "--arch", "h200", "--strategy", "fused", "--strategy", "chunk"});
  CHECK(two.code == 2);
  CHECK_THAT(two.err, test::contains("wisdom find takes one"));
}

// The bug: of what was expected to take less than the chosen one, explain said that it was
// expected to take longer.
TEST_CASE("explain says why what it expects less of is not chosen", "[tools]") {
  const test::Scratch scratch;
  const test::Environment here("KDA_WISDOM_DIR", scratch.path()), asked("KDA_TUNE", "read");
  tune::Record slow = test::record_of(test::problem_in_words(
      "T=8192 H=64 qkv=bf16 g=bf16 beta=bf16 gate=bounded lower_bound=-5 beta_logit=1 "
      "l2norm=1 layout=value_first h0=1 ht=1"));
  slow.time_us = {.n = 25, .median = 2000, .iqr = 1, .min = 1998};
  slow.by_strategy[0].time_us = slow.time_us;
  REQUIRE(tune::Wisdom(scratch.path(), "").add(slow));
  const Json rows =
      Json::parse(out_of({"explain", "h64", "--arch", "h200", "-o", "json"}))["candidates"];
  int sooner = 0;
  for (const Json& row : rows) {
    if (row["chosen"] == true) CHECK(test::text(row["strategy"]) == slow.winner.strategy);
    if (row["chosen"] == true || !row.contains("expected_us")) continue;
    INFO(row.dump());
    const bool less = test::number(row["expected_us"]) < 2000;
    CHECK(test::text(row["why"]) ==
          (less ? "expected sooner, but measured records prefer the chosen one"
                : "expected to take longer"));
    sooner += less ? 1 : 0;
  }
  CHECK(sooner > 0);
}

// The bug: merge offered --wisdom-dir, and kept nothing there.
TEST_CASE("merge, which keeps nothing, takes no directory", "[tools]") {
  const test::Scratch scratch;
  std::ofstream(scratch / "none.jsonl").close();
  CHECK(test::kda_tune({"wisdom", "merge", scratch / "none.jsonl"}).code == 0);
  CHECK(test::kda_tune({"wisdom", "merge", scratch / "none.jsonl", "--wisdom-dir", scratch / "w"})
            .code == 2);
}

// The bug: export and merge took -o csv, and wrote JSON lines.
TEST_CASE("export and merge, which write JSON lines, offer no format", "[tools]") {
  const test::Scratch scratch;
  const std::string file = scratch / "a.jsonl";
  std::ofstream(file) << tune::to_json(test::record_of(test::problem_in_words("T=300 H=2")))
                      << "\n";
  CHECK(test::kda_tune({"wisdom", "export", "--own", "--wisdom-dir", scratch.path(), "-o", "csv"})
            .code == 2);
  CHECK(test::kda_tune({"wisdom", "merge", file, "--json"}).code == 2);
  CHECK(out_of({"wisdom", "export", "--help"}).find("--format") == std::string::npos);
  out_of({"wisdom", "merge", file, "--output", scratch / "b.jsonl"});
  std::ifstream merged(scratch / "b.jsonl");
  CHECK(lines_in(std::string(std::istreambuf_iterator<char>(merged), {})) == 1);
}

// The bug: a key that no record has was refused, and not what would show those there are.
TEST_CASE("a key that no record has is told where there are some", "[tools]") {
  const test::Ran ran = test::kda_tune({"wisdom", "show", "zz"});
  CHECK(ran.code == 1);
  CHECK_THAT(ran.err, test::contains("begins with \"zz\"; kda-tune wisdom ls shows them"));
}

// The bug: of the records of one problem, -o json showed the last; prune's answer was no JSON.
TEST_CASE("what people see programs see, too", "[tools]") {
  const test::Scratch scratch;
  const tune::Record record = test::record_of(test::problem_in_words(
      "T=8192 H=64 qkv=bf16 g=bf16 beta=bf16 gate=bounded lower_bound=-5 beta_logit=1 "
      "l2norm=1 layout=value_first h0=1 ht=1"));
  REQUIRE(tune::Wisdom(scratch.path(), "").add(record));
  const std::string key = tune::key_digest(record.problem);
  const Json shown =
      Json::parse(out_of({"wisdom", "show", key, "--wisdom-dir", scratch.path(), "-o", "json"}));
  CHECK(shown.size() == 3);  // the user's and those shipped of two devices
  const Json removed = Json::parse(
      out_of({"wisdom", "prune", "--all", "--wisdom-dir", scratch.path(), "-o", "json"}));
  CHECK(removed["removed"][0]["removed"] == 1);
  const Json path =
      Json::parse(out_of({"wisdom", "path", "--wisdom-dir", scratch.path(), "-o", "json"}));
  CHECK(test::text(path["path"][0]["path"]) == scratch.path());
}

// The bug: a directory that was misspelt or could not be read was an empty one, with exit code 0:
// export put 0 bytes in a backup's place, and prune was done.
TEST_CASE("measurements that cannot be looked into are not called none", "[tools]") {
  const test::Scratch scratch;
  const std::string here = scratch / "here", file = scratch / "file", backup = scratch / "b.jsonl";
  REQUIRE(tune::Wisdom(here, "").add(test::record_of(test::problem_in_words("T=300 H=2"))));
  std::ofstream(file) << "no directory";
  std::ofstream(backup) << "before";
  const auto refused = [&](const std::string& directory, const char* why) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"export", "--own", "--output", backup},
          {"ls"},
          {"show", "0"},
          {"prune", "--all"}}) {
      std::vector<std::string> all = {"wisdom"};
      all.insert(all.end(), words.begin(), words.end());
      all.insert(all.end(), {"--wisdom-dir", directory});
      const test::Ran ran = test::kda_tune(all);
      INFO(words[0] << ": " << ran.err);
      CHECK(ran.code == 1);
      CHECK_THAT(ran.err, test::contains(why));
    }
    CHECK(test::kda_tune({"wisdom", "verify", "--wisdom-dir", directory}).code == 1);
  };
  refused(scratch / "typo", "typo: No such file");
  refused(file, "file: Not a directory");
  base::fault::hook() = [](const char* step) {
    return std::string_view(step) == "list" ? EACCES : 0;
  };
  refused(here, "here/v1: Permission denied");
  base::fault::hook() = nullptr;
  std::ifstream text(backup);
  CHECK(std::string(std::istreambuf_iterator<char>(text), {}) == "before");
  // The user's own is there from the first record on.
  const test::Environment own("KDA_WISDOM_DIR", scratch / "later");
  CHECK(out_of({"wisdom", "export", "--own"}).empty());
}

// The bug: prune said of journals that it could not remove that all was removed.
TEST_CASE("prune tells of journals that it could not remove", "[tools]") {
  const test::Scratch scratch;
  const std::string journal = scratch / "v1/journal/a.jsonl";
  std::filesystem::create_directories(scratch / "v1/journal");
  std::ofstream(journal) << "no journal";
  const std::vector<std::string> prune = {"wisdom", "prune", "--all", "--wisdom-dir",
                                          scratch.path()};
  base::fault::hook() = [](const char* step) {
    return std::string_view(step) == "unlink" ? EACCES : 0;
  };
  const test::Ran ran = test::kda_tune(prune);
  base::fault::hook() = nullptr;
  CHECK(ran.code == 1);
  CHECK_THAT(ran.err, test::contains("0 records and 0 journals were removed, but not " + journal +
                                     ": Permission denied"));
  CHECK(out_of(prune) == "0 removed, and 1 journals of searches\n");
}

// The bug: verify and doctor passed records that nobody can read, of another user or on a failing
// disk, as sound.
TEST_CASE("records that cannot be read are told of", "[tools]") {
  const test::Scratch scratch;
  REQUIRE(
      tune::Wisdom(scratch.path(), "").add(test::record_of(test::problem_in_words("T=300 H=2"))));
  const test::Environment here("KDA_WISDOM_DIR", scratch.path()), cache("KDA_CACHE_DIR", nullptr);
  base::fault::hook() = [](const char* step) { return std::string_view(step) == "open" ? EIO : 0; };
  const test::Ran verified = test::kda_tune({"wisdom", "verify", "-o", "json"});
  const test::Ran doctor = test::kda_tune({"doctor", "-o", "json"});
  base::fault::hook() = nullptr;
  CHECK(verified.code == 1);
  const Json found = Json::parse(verified.out);
  CHECK(found["damaged"].empty());
  REQUIRE(found["unreadable"].size() == 1);
  CHECK_THAT(test::text(found["unreadable"][0]["why"]), test::contains("EIO"));
  CHECK(doctor.code == 1);
  CHECK_THAT(doctor.out, test::contains("kda-tune wisdom verify shows them"));
}

// The bug: the word by which all else knows a device was of no record.
TEST_CASE("prune takes the devices that all else takes", "[tools]") {
  const test::Scratch scratch;
  REQUIRE(
      tune::Wisdom(scratch.path(), "").add(test::record_of(test::problem_in_words("T=300 H=2"))));
  CHECK(out_of({"wisdom", "prune", "--of-device", "h100", "--wisdom-dir", scratch.path()}) ==
        "0 removed\n");
  CHECK(out_of({"wisdom", "prune", "--of-device", "h200", "--wisdom-dir", scratch.path()}) ==
        "1 removed\n");
}

// The bug: merge passed over lines without a word.
TEST_CASE("merge says which lines it passes over", "[tools]") {
  const test::Scratch scratch;
  const std::string file = scratch / "a.jsonl";
  std::ofstream(file) << "damage\n"
                      << tune::to_json(test::record_of(test::problem_in_words("T=300 H=2")))
                      << "\n";
  const test::Ran ran = test::kda_tune({"wisdom", "merge", file, "--lenient"});
  CHECK(ran.code == 0);
  CHECK(lines_in(ran.out) == 1);
  CHECK_THAT(ran.err, test::contains(file + ": line 1: ") && test::contains("; passed over"));
}
