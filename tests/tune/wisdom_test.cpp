#include "tune/wisdom.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tune/match.hpp"
#include "tune/records.hpp"

using namespace kda;
using test::h200;
using test::problem_in_words;
using test::record_of;

namespace {

namespace fs = std::filesystem;

const char* const kWords = "T=8192 H=16 K=64 V=64 h0=1 ht=1";

struct Fixture {
  test::Scratch scratch;
  Problem problem = problem_in_words(kWords);
  tune::Wisdom wisdom{scratch / "mine", ""};

  // As another process would see the directory.
  std::optional<tune::Hint> found_anew(const char* words = kWords,
                                       const device::Device& device = h200()) const {
    return tune::Wisdom(scratch / "mine", "").find(problem_in_words(words), device);
  }
  std::string path_of(const tune::Record& record) const {
    return scratch / "mine/v1/" + digest(record.environment) + "/" +
           tune::key_digest(record.problem) + ".json";
  }
};

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("what was recorded is found again, by this process and by others", "[tune]") {
  Fixture f;
  CHECK_FALSE(f.wisdom.find(f.problem, h200()));
  const tune::Record record = record_of(f.problem);
  REQUIRE(f.wisdom.add(record));
  const auto here = f.wisdom.find(f.problem, h200());
  REQUIRE(here);
  CHECK(here->match == tune::Match::exact);
  CHECK(here->source == tune::Source::user);
  CHECK(here->candidate == record.winner);
  CHECK(here->microseconds == 100);
  CHECK(here->words == "exact, user wisdom of 2026-11-21: 100.0 us, 20.0% under the default");
  CHECK(fs::exists(f.path_of(record)));
  const auto there = f.found_anew();
  REQUIRE(there);
  CHECK(there->match == tune::Match::exact);
  CHECK(there->candidate == record.winner);
}

TEST_CASE("a second record of one question replaces the first", "[tune]") {
  Fixture f;
  REQUIRE(f.wisdom.add(record_of(f.problem)));
  const std::uint64_t before = f.wisdom.generation();
  const tune::Candidate other = test::recurrent("threads=32 lanes=8 columns=4 stages=2");
  REQUIRE(f.wisdom.add(record_of(f.problem, h200(), other)));
  CHECK(f.wisdom.generation() > before);
  CHECK(f.wisdom.find(f.problem, h200())->candidate == other);
  CHECK(f.found_anew()->candidate == other);
  CHECK(f.wisdom.list().size() == 1 + tune::Wisdom(f.scratch / "none", "").list().size());
}

TEST_CASE("the match classes, best first", "[tune]") {
  Fixture f;
  const auto match = [&](const char* words, const device::Device& device = h200()) {
    const auto hint = f.found_anew(words, device);
    return hint ? name_of(hint->match) : "none";
  };
  device::Device sibling = h200();
  sibling.name = "NVIDIA H100 SXM";
  device::Device slice = h200();
  slice.multiprocessors = 60;

  REQUIRE(f.wisdom.add(record_of(f.problem)));
  CHECK(std::string(match(kWords)) == "exact");
  CHECK(std::string(match("T=4096 H=16 K=64 V=64 h0=1 ht=1")) == "nearest");
  CHECK(std::string(match("T=8192 H=32 K=64 V=64 h0=1 ht=1")) == "nearest");
  CHECK(std::string(match("T=8192 N=4 H=16 K=64 V=64 h0=1 ht=1")) == "nearest");
  CHECK(std::string(match(kWords, sibling)) == "other device");
  CHECK(std::string(match(kWords, slice)) == "other device");
  // Too far, or other kernels altogether.
  CHECK(std::string(match("T=1024 H=16 K=64 V=64 h0=1 ht=1")) == "none");
  CHECK(std::string(match("T=3000 H=48 K=64 V=64 h0=1 ht=1 N=3")) == "none");
  CHECK(std::string(match("T=8192 H=16 K=128 V=64 h0=1 ht=1")) == "none");
  CHECK(std::string(match("T=8192 H=16 HV=32 K=64 V=64 h0=1 ht=1")) == "none");
  CHECK(std::string(match(kWords, *device::parse("a100"))) == "none");

  tune::Record old = record_of(problem_in_words("T=4096 H=16 K=64 V=64 h0=1 ht=1"));
  old.environment.templates = "of another day";
  REQUIRE(f.wisdom.add(old));
  const auto hint = f.found_anew("T=4096 H=16 K=64 V=64 h0=1 ht=1");
  REQUIRE(hint);
  CHECK(hint->match == tune::Match::other_build);
  CHECK_THAT(hint->words, test::contains("other build (measured with other kernel templates)"));
  old = record_of(problem_in_words("T=4096 H=16 K=64 V=64 h0=1 ht=1"));
  old.environment.l2_bytes /= 2;  // was called another NVRTC
  Fixture alone;  // of two other builds' records the directories' digests decide which answers
  REQUIRE(alone.wisdom.add(old));
  CHECK_THAT(alone.found_anew("T=4096 H=16 K=64 V=64 h0=1 ht=1")->words,
             test::contains("measured with another size of L2"));
}

// Named, an H200 had 50 MiB of L2, where the driver of a real one says 60: its own records did not
// fit.
TEST_CASE("shipped records are of the device that their name stands for", "[tune]") {
  const test::Scratch scratch;
  const tune::Wisdom wisdom(scratch / "none", "", base::env::CacheMode::off);
  int seen[2] = {};
  for (const tune::Wisdom::Listed& each : wisdom.list()) {
    if (each.source != tune::Source::shipped) continue;
    const tune::Environment& e = each.record->environment;
    const bool is_h200 = e.device == test::h200().name;
    const device::Device& named = is_h200 ? test::h200() : test::h100();
    REQUIRE(e.device == named.name);
    CHECK(e.multiprocessors == named.multiprocessors);
    CHECK(e.l2_bytes == named.l2_bytes);
    ++seen[is_h200 ? 0 : 1];
  }
  CHECK(seen[0] > 0);
  CHECK(seen[1] > 0);
}

TEST_CASE("of near records the nearest answers, and says its size", "[tune]") {
  Fixture f;
  REQUIRE(f.wisdom.add(record_of(f.problem)));
  const tune::Candidate near = test::recurrent("threads=32 lanes=8 columns=4 stages=2");
  REQUIRE(
      f.wisdom.add(record_of(problem_in_words("T=5000 H=16 K=64 V=64 h0=1 ht=1"), h200(), near)));
  const auto hint = f.found_anew("T=4096 H=16 K=64 V=64 h0=1 ht=1");
  REQUIRE(hint);
  CHECK(hint->candidate == near);
  CHECK_THAT(hint->words, test::contains("nearest (measured at T=5000 N=1 H=16 HV=16)"));
}

TEST_CASE("of records as near the newest answers, of other builds' too", "[tune]") {
  Fixture f;
  const tune::Candidate newer = test::recurrent("threads=32 lanes=8 columns=4 stages=2");
  for (const char* words : {kWords, "T=4096 H=16 K=64 V=64 h0=1 ht=1"}) {
    INFO(words);
    // Whichever comes first in the directory.
    for (const auto& [first, second] : {std::pair{"one", "two"}, {"two", "one"}}) {
      const std::string place = f.scratch / (std::string(words) + first);
      for (const char* build : {first, second}) {
        const bool is_newer = build == first;
        tune::Record record = is_newer ? record_of(f.problem, h200(), newer) : record_of(f.problem);
        record.environment.compiler = std::string("nvrtc ") + build;
        if (is_newer) record.date = "2026-11-22T08:00:00Z";
        REQUIRE(tune::Wisdom(place, "").add(record));
      }
      const auto hint = tune::Wisdom(place, "").find(problem_in_words(words), h200());
      REQUIRE(hint);
      CHECK(hint->candidate == newer);
    }
  }
}

TEST_CASE("of records as near one of this build goes before a newer one of another", "[tune]") {
  Fixture f;
  tune::Record other =
      record_of(f.problem, h200(), test::recurrent("threads=32 lanes=8 columns=4 stages=2"));
  other.environment.compiler = "another";
  other.date = "2026-11-22T08:00:00Z";
  REQUIRE(f.wisdom.add(other));
  REQUIRE(f.wisdom.add(record_of(f.problem)));
  const auto hint = f.found_anew("T=4096 H=16 K=64 V=64 h0=1 ht=1");
  REQUIRE(hint);
  CHECK(hint->candidate == test::recurrent());
}

// A manifest that is damaged lets records of any device through to here.
TEST_CASE("records of another capability fit nothing", "[tune]") {
  const tune::Record record = record_of(problem_in_words(kWords));
  const auto fits = [&](const device::Device& device) {
    const tune::Question question = tune::question_of(record.problem, device, "");
    return tune::fit_of(question, record, question.key, question.family).has_value();
  };
  device::Device next = h200();
  CHECK(fits(next));
  ++next.minor;
  CHECK_FALSE(fits(next));
  CHECK_FALSE(fits(*device::parse("a100")));
}

TEST_CASE("of records as near the user's goes before a newer shared one", "[tune]") {
  Fixture f;
  const tune::Candidate theirs = test::recurrent("threads=32 lanes=8 columns=4 stages=2");
  tune::Record newer = record_of(f.problem, h200(), theirs);
  newer.date = "2026-11-22T08:00:00Z";
  REQUIRE(tune::Wisdom(f.scratch / "theirs", "").add(newer));
  REQUIRE(f.wisdom.add(record_of(f.problem)));
  const test::Environment path("KDA_WISDOM_PATH", f.scratch / "theirs");
  const auto hint = f.found_anew("T=4096 H=16 K=64 V=64 h0=1 ht=1");
  REQUIRE(hint);
  CHECK(hint->match == tune::Match::nearest);
  CHECK(hint->source == tune::Source::user);
}

// A slice of a device and the whole one want other tunings.
TEST_CASE("of other devices' records one of as many multiprocessors goes before a nearer size",
          "[tune]") {
  Fixture f;
  device::Device sibling = h200(), slice = h200();
  sibling.name = "NVIDIA H100 SXM";
  slice.multiprocessors = 60;
  const tune::Candidate wide = test::recurrent("threads=32 lanes=8 columns=4 stages=2");
  REQUIRE(f.wisdom.add(record_of(f.problem, slice)));
  REQUIRE(
      f.wisdom.add(record_of(problem_in_words("T=4096 H=16 K=64 V=64 h0=1 ht=1"), sibling, wide)));
  const auto hint = f.found_anew();
  REQUIRE(hint);
  CHECK(hint->match == tune::Match::other_device);
  CHECK(hint->candidate == wide);
}

// The bug: " /a:/b" of KDA_WISDOM_PATH was a directory whose name begins with a blank, below the
// working directory, where KDA_CACHE_PATH's is /a.
TEST_CASE("blanks around a place of KDA_WISDOM_PATH are none of it", "[tune]") {
  Fixture f;
  REQUIRE(tune::Wisdom(f.scratch / "theirs", "").add(record_of(f.problem)));
  const test::Environment path("KDA_WISDOM_PATH", " : /nowhere:  " + (f.scratch / "theirs") + " ");
  const auto shared = f.found_anew();
  REQUIRE(shared);
  CHECK(shared->source == tune::Source::shared);
}

TEST_CASE("the user's record goes before a shared one of the same class", "[tune]") {
  Fixture f;
  const tune::Candidate theirs = test::recurrent("threads=32 lanes=8 columns=4 stages=2");
  REQUIRE(tune::Wisdom(f.scratch / "theirs", "").add(record_of(f.problem, h200(), theirs)));
  const test::Environment path("KDA_WISDOM_PATH", "/nowhere::" + (f.scratch / "theirs"));
  const auto shared = f.found_anew();
  REQUIRE(shared);
  CHECK(shared->source == tune::Source::shared);
  CHECK(shared->candidate == theirs);
  CHECK_THAT(shared->words, test::contains("shared wisdom"));

  REQUIRE(f.wisdom.add(record_of(f.problem)));
  CHECK(f.found_anew()->source == tune::Source::user);
  // A better class from elsewhere goes before the user's worse one.
  tune::Record stale = record_of(f.problem);
  fs::remove_all(f.scratch / "mine");
  stale.environment.compiler = "nvrtc 12.4";
  REQUIRE(tune::Wisdom(f.scratch / "mine", "").add(stale));
  CHECK(f.found_anew()->source == tune::Source::shared);
}

TEST_CASE("a strategy asked for gets the best that was measured of it", "[tune]") {
  Fixture f;
  tune::Record record = record_of(f.problem);
  tune::Measurement chunk;
  chunk.candidate =
      test::candidate_of("chunk", "chunk=16 prepare_threads=64 threads=64 shards=1 load_stages=3");
  chunk.time_us = {.n = 7, .median = 140, .iqr = 1, .min = 139};
  record.by_strategy.push_back(chunk);
  REQUIRE(f.wisdom.add(record));
  const auto hint = f.wisdom.find(f.problem, h200(), "chunk");
  REQUIRE(hint);
  CHECK(hint->candidate == chunk.candidate);
  CHECK(hint->microseconds == 140);
  CHECK_FALSE(f.wisdom.find(f.problem, h200(), "chunk_wgmma"));
}

TEST_CASE("a winner that cannot serve the problem is passed over", "[tune]") {
  Fixture f;
  // A thread of it would keep more of the state than registers hold.
  REQUIRE(f.wisdom.add(
      record_of(f.problem, h200(), test::recurrent("threads=128 lanes=4 columns=8 stages=2"))));
  const auto hint = f.wisdom.find(problem_in_words("T=8192 H=16 K=256 V=64"), h200());
  CHECK_FALSE(hint);
  // Nor one that says it of just this problem, as another version of the library may have.
  const Problem wide = problem_in_words("T=8192 H=16 K=256 V=64");
  REQUIRE(f.wisdom.add(
      record_of(wide, h200(), test::recurrent("threads=128 lanes=4 columns=8 stages=2"))));
  CHECK_FALSE(f.wisdom.find(wide, h200()));
}

TEST_CASE("damaged files are passed over, and the next class answers", "[tune]") {
  Fixture f;
  const tune::Record record = record_of(f.problem);
  const std::string path = f.path_of(record);
  for (const std::string& damage : {std::string(), std::string("{"), std::string("\xff\xfe\x00", 3),
                                    to_json(record).substr(0, 900), std::string(2 << 20, ' ')}) {
    REQUIRE(f.wisdom.add(record));
    write(path, damage);
    CHECK_FALSE(f.found_anew());
    CHECK(tune::verify(f.wisdom).size() == 1);
  }
  fs::remove(path);
  fs::create_directories(path);  // a directory in a file's place
  CHECK_FALSE(f.found_anew());
  fs::remove_all(path);

  // A sound record under another's name answers nothing.
  write(path, to_json(record_of(problem_in_words("T=100 H=1"))));
  CHECK_FALSE(f.found_anew());
  REQUIRE(tune::verify(f.wisdom).size() == 1);
  CHECK_THAT(tune::verify(f.wisdom).front().why, test::contains("another question"));

  // So does one of another environment put in this one's place.
  tune::Record foreign = record;
  foreign.environment.device = "another";
  write(path, to_json(foreign));
  const auto hint = f.found_anew();
  CHECK((!hint || hint->match == tune::Match::other_device));
}

// The bug: beside an emptied manifest near records were found no more, verify saw nothing wrong,
// and writing a record there did not mend it.
TEST_CASE("a damaged manifest hides no record, is told, and mended by the next one", "[tune]") {
  Fixture f;
  const tune::Record record = record_of(f.problem);
  REQUIRE(f.wisdom.add(record));
  const std::string manifest =
      (fs::path(f.path_of(record)).parent_path() / "manifest.json").string();
  const Problem near = problem_in_words("T=8000 H=16 K=64 V=64 h0=1 ht=1");
  f.wisdom.reload();
  const auto whole = f.wisdom.find(near, h200());
  REQUIRE(whole);
  for (const char* damage : {"", "{}\n", "null"}) {
    INFO(damage);
    write(manifest, damage);
    f.wisdom.reload();
    const auto hint = f.wisdom.find(near, h200());
    REQUIRE(hint);
    CHECK(hint->words == whole->words);
    REQUIRE(tune::verify(f.wisdom).size() == 1);
    CHECK(tune::verify(f.wisdom).front().path == manifest);
    REQUIRE(f.wisdom.add(record));
    CHECK(tune::verify(f.wisdom).empty());
  }
}

TEST_CASE("without a directory, or where it cannot be written, this process still knows",
          "[tune]") {
  Fixture f;
  write(f.scratch / "file", "");
  tune::Wisdom wisdom(f.scratch / "file/under", "");
  const Status kept = wisdom.add(record_of(f.problem));
  CHECK(kept.code() == Code::invalid_argument);
  CHECK_THAT(kept.message(), test::contains("cannot be kept in"));
  CHECK(wisdom.find(f.problem, h200()));

  const test::Environment readonly("KDA_CACHE", "ro");
  tune::Wisdom reader(f.scratch / "mine", "");
  CHECK(reader.add(record_of(f.problem)));
  CHECK(reader.find(f.problem, h200()));
  CHECK_FALSE(fs::exists(f.scratch / "mine"));
  // What was measured is kept nowhere else: neither a reload nor another environment's record of
  // the same problem takes it away.
  tune::Record other = record_of(f.problem);
  other.environment.compiler = "another";
  REQUIRE(reader.add(other));
  reader.reload();
  const auto still = reader.find(f.problem, h200());
  REQUIRE(still);
  CHECK(still->match == tune::Match::exact);
}

TEST_CASE("with the cache off no directory is read", "[tune]") {
  Fixture f;
  REQUIRE(f.wisdom.add(record_of(f.problem)));
  const test::Environment off("KDA_CACHE", "off");
  CHECK_FALSE(f.found_anew());
}

TEST_CASE("wisdom lies where it is told, else beside the kernels", "[tune]") {
  const test::Environment none("KDA_WISDOM_DIR", nullptr);
  const test::Environment cache("KDA_CACHE_DIR", "/kernels");
  CHECK(tune::Wisdom("", "").directory() == "/kernels/wisdom");
  CHECK(tune::Wisdom("", "/other").directory() == "/other/wisdom");
  CHECK(tune::Wisdom("/mine", "/other").directory() == "/mine");
  const test::Environment named("KDA_WISDOM_DIR", "/named");
  CHECK(tune::Wisdom("", "/other").directory() == "/named");
  CHECK(tune::Wisdom("/mine", "/other").directory() == "/mine");
}

TEST_CASE("other processes' records are seen after a reload", "[tune]") {
  Fixture f;
  CHECK_FALSE(f.wisdom.find(f.problem, h200()));
  REQUIRE(tune::Wisdom(f.scratch / "mine", "").add(record_of(f.problem)));
  CHECK_FALSE(f.wisdom.find(f.problem, h200()));
  f.wisdom.reload();
  CHECK(f.wisdom.find(f.problem, h200()));
}

// The bug: a cache directory that others may write was not used, but the measurements in it were,
// by which they chose what runs.
TEST_CASE("measurements of a directory that others may write are neither read nor kept", "[tune]") {
  Fixture f;
  const std::string cache = f.scratch / "cache";
  {
    tune::Wisdom wisdom("", cache);
    REQUIRE(wisdom.add(record_of(f.problem)));
    CHECK(wisdom.keeps());
    CHECK(wisdom.distrusted().empty());
  }
  const auto found = [&] { return tune::Wisdom("", cache).find(f.problem, h200()).has_value(); };
  for (const std::string& directory : {cache, cache + "/wisdom"}) {
    REQUIRE(::chmod(directory.c_str(), 0777) == 0);
    CHECK_FALSE(found());
    tune::Wisdom wisdom("", cache);
    CHECK_FALSE(wisdom.keeps());
    CHECK_THAT(wisdom.distrusted(),
               test::contains("chmod go-w") && test::contains("KDA_WISDOM_PATH"));
    CHECK(wisdom.add(record_of(f.problem)).ok());  // to this process's memory
    CHECK(wisdom.find(f.problem, h200()));
    {
      const test::Environment trusting("KDA_CACHE_TRUST_SHARED", "1");
      CHECK(found());
      CHECK(tune::shared_wisdom("", cache)->keeps());
    }
    CHECK_FALSE(tune::shared_wisdom("", cache)->keeps());
    REQUIRE(::chmod(directory.c_str(), 0755) == 0);
    CHECK(found());
    CHECK(tune::shared_wisdom("", cache)->keeps());
  }
}

// The bug: where no NVRTC could be asked, what the same templates were measured by was "measured
// with other kernel templates".
TEST_CASE("a match says that there is no NVRTC to compare", "[tune]") {
  const tune::Record record = record_of(problem_in_words(kWords));
  tune::Question question = tune::question_of(record.problem, h200(), "");
  question.environment.reset();
  const auto fit = tune::fit_of(question, record, tune::key_of(record.problem), question.family);
  REQUIRE(fit);
  const std::string words = tune::words_of(question, record, *fit, tune::Source::user,
                                           *tune::answer_of(question, record));
  CHECK_THAT(words, test::contains("(measured with an NVRTC, and here is none to compare)"));
}
