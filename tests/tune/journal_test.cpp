#include "tune/journal.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tune/records.hpp"

using namespace kda;
using test::problem_in_words;
using test::record_of;

namespace {

tune::JournalHeader header_of(const char* words = "T=300 H=2") {
  const tune::Record record = record_of(problem_in_words(words));
  return {record.problem, record.lengths, record.environment, "halving", 7, record.date};
}

tune::Measurement measurement(const char* tuning, double us, int rung = 0) {
  tune::Measurement m;
  m.candidate = test::recurrent(tuning);
  m.rung = rung;
  m.time_us = {.n = 3, .median = us, .iqr = 1, .min = us};
  return m;
}

const char* const kA = "threads=64 lanes=16 columns=2 stages=2";
const char* const kB = "threads=64 lanes=8 columns=2 stages=2";

}  // namespace

TEST_CASE("a journal is read back as it was written", "[tune]") {
  const test::Scratch scratch;
  const std::string path = scratch / "deep/down/j.jsonl";
  {
    auto journal = tune::Journal::open(path, header_of(), false);
    REQUIRE(journal);
    journal->append(measurement(kA, 10));
    journal->append(measurement(kB, 20, 1));
    journal->finish(record_of(problem_in_words("T=300 H=2")));
  }
  const auto contents = tune::read_journal(path);
  INFO(contents.status().message());
  REQUIRE(contents);
  CHECK(contents->header.problem == header_of().problem);
  CHECK(contents->header.environment == header_of().environment);
  CHECK(contents->header.seed == 7);
  REQUIRE(contents->measurements.size() == 2);
  CHECK(contents->measurements[1].rung == 1);
  CHECK(contents->measurements[1].time_us.median == 20);
  REQUIRE(contents->winner);
  CHECK(contents->winner->time_us.median == 100);
  CHECK(contents->damaged_lines == 0);
}

TEST_CASE("a killed search loses nothing that it had measured", "[tune]") {
  const test::Scratch scratch;
  const std::string path = scratch / "j.jsonl";
  const pid_t child = ::fork();
  if (child == 0) {
    auto journal = tune::Journal::open(path, header_of(), false);
    if (!journal) ::_exit(1);
    journal->append(measurement(kA, 10));
    journal->append(measurement(kB, 20));
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  const auto contents = tune::read_journal(path);
  REQUIRE(contents);
  CHECK(contents->measurements.size() == 2);
}

TEST_CASE("a last line half written costs only itself, and a resumed journal goes on behind it",
          "[tune]") {
  const test::Scratch scratch;
  const std::string path = scratch / "j.jsonl";
  {
    auto journal = tune::Journal::open(path, header_of(), false);
    REQUIRE(journal);
    journal->append(measurement(kA, 10));
    journal->append(measurement(kB, 20));
  }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 30);
  {
    auto journal = tune::Journal::open(path, header_of(), true);
    REQUIRE(journal);
    REQUIRE(journal->earlier().size() == 1);
    CHECK(journal->earlier().front().candidate == test::recurrent(kA));
    journal->append(measurement(kB, 21));
  }
  const auto contents = tune::read_journal(path);
  REQUIRE(contents);
  CHECK(contents->damaged_lines == 1);
  REQUIRE(contents->measurements.size() == 2);
  CHECK(contents->measurements[1].time_us.median == 21);
}

TEST_CASE("a journal of another question is not gone on with", "[tune]") {
  const test::Scratch scratch;
  const std::string path = scratch / "j.jsonl";
  tune::JournalHeader other = header_of();
  const auto fill = [&] {
    auto journal = tune::Journal::open(path, header_of(), false);
    REQUIRE(journal);
    journal->append(measurement(kA, 10));
  };
  const auto earlier = [&](const tune::JournalHeader& header) {
    fill();
    const auto journal = tune::Journal::open(path, header, true);
    REQUIRE(journal);
    return journal->earlier().size();
  };
  CHECK(earlier(header_of()) == 1);
  CHECK(earlier(header_of("T=301 H=2")) == 0);
  other.environment.templates = "of another day";
  CHECK(earlier(other) == 0);
  other = header_of();
  other.lengths = {100, 200};
  CHECK(earlier(other) == 0);
  // Another method may use what was measured.
  other = header_of();
  other.method = "exhaustive";
  CHECK(earlier(other) == 1);
  // Nor is one gone on with unless asked.
  fill();
  CHECK(tune::Journal::open(path, header_of(), false)->earlier().empty());
  CHECK(tune::read_journal(path)->measurements.empty());
}

// The bug: a first line that could not be read cost all the lines behind it: the file was begun
// anew.
TEST_CASE("a journal that cannot be resumed is kept aside", "[tune]") {
  const test::Scratch scratch;
  const std::string path = scratch / "j.jsonl";
  const auto text_of = [](const std::string& name) {
    std::ifstream in(name);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  for (const char* aside : {".damaged", ".damaged2"}) {
    const std::string before = std::string("{\"kda_jour\n{}") + aside;
    std::ofstream(path) << before;
    const auto journal = tune::Journal::open(path, header_of(), true);
    REQUIRE(journal);
    CHECK(journal->earlier().empty());
    CHECK_THAT(journal->set_aside(), test::contains("line 1"));
    CHECK_THAT(journal->set_aside(), test::contains("kept as " + path + aside));
    CHECK(text_of(path + aside) == before);
    CHECK(tune::read_journal(path));
  }
  // Nothing is lost of none, nor of one that a process began and did not get to write.
  for (const char* name : {"none", "empty"}) {
    if (name == std::string("empty")) std::ofstream(scratch / name).flush();
    const auto journal = tune::Journal::open(scratch / name, header_of(), true);
    REQUIRE(journal);
    CHECK(journal->set_aside().empty());
  }
}

// The bug: two searches of one problem wrote into one file, which the later had truncated.
TEST_CASE("a journal has one writer", "[tune]") {
  const test::Scratch scratch;
  const std::string path = scratch / "j.jsonl";
  if (!base::file::locks_work(scratch.path())) return;  // a filesystem of which nothing is known
  {
    auto first = tune::Journal::open(path, header_of(), false);
    REQUIRE(first);
    first->append(measurement(kA, 10));
    for (const bool resume : {false, true}) {
      const auto second = tune::Journal::open(path, header_of(), resume);
      REQUIRE_FALSE(second);
      CHECK_THAT(second.status().message(),
                 test::contains("process " + std::to_string(::getpid()) + " on "));
    }
    first->append(measurement(kB, 20));
  }
  CHECK(tune::read_journal(path)->measurements.size() == 2);
  CHECK(tune::Journal::open(path, header_of(), true)->earlier().size() == 2);
}

TEST_CASE("what is no journal is refused in words", "[tune]") {
  const test::Scratch scratch;
  CHECK_THAT(tune::read_journal(scratch / "none").status().message(),
             test::contains("No such file"));
  for (const char* text : {"", "x", "{}", "{\"kda_journal\":2}", "{\"kda_journal\":1}"}) {
    std::ofstream(scratch / "j") << text;
    INFO(text);
    const auto contents = tune::read_journal(scratch / "j");
    REQUIRE_FALSE(contents);
    CHECK_THAT(contents.status().message(), test::contains("line 1"));
  }
}

TEST_CASE("a disk that fills up ends no search", "[tune]") {
  auto journal = tune::Journal::open("/dev/full", header_of(), false);
  if (!journal) return;  // this sandbox has no such device
  journal->append(measurement(kA, 10));
  // The bug: nobody could ask, and --resume was promised.
  CHECK(journal->failed());
  journal->finish(record_of(problem_in_words("T=300 H=2")));
}

TEST_CASE("each problem and environment has a journal of its own", "[tune]") {
  tune::JournalHeader other = header_of();
  other.environment.compiler = "another";
  CHECK(tune::journal_path("/w", header_of()) == tune::journal_path("/w", header_of()));
  CHECK(tune::journal_path("/w", header_of()) != tune::journal_path("/w", other));
  CHECK(tune::journal_path("/w", header_of()) != tune::journal_path("/w", header_of("T=9 H=2")));
  // The bug: searches of other lengths of as many tokens wrote into one file, and resumed from it.
  tune::JournalHeader lengths = header_of();
  lengths.lengths.push_back(1);
  CHECK(tune::journal_path("/w", header_of()) != tune::journal_path("/w", lengths));
  CHECK(tune::journal_path("/w", header_of()).starts_with("/w/v1/journal/"));
}
