// Wisdom asked and told by many threads, and by many processes.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tune/records.hpp"

using namespace kda;

namespace {

std::string words_of(int size) { return "T=" + std::to_string(1000 * size) + " H=4 K=32 V=32"; }

}  // namespace

TEST_CASE("threads may ask, tell, list and reload at once", "[tune]") {
  const test::Scratch scratch;
  tune::Wisdom wisdom(scratch.path(), "");
  std::vector<tune::Record> records;
  for (int i = 1; i <= 4; ++i) {
    records.push_back(test::record_of(test::problem_in_words(words_of(i).c_str())));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 12; ++round) {
        const tune::Record& mine = records[static_cast<std::size_t>(t)];
        if (!wisdom.add(mine)) ++wrong;
        const auto hint = wisdom.find(mine.problem, test::h200());
        if (!hint || hint->match != tune::Match::exact) ++wrong;
        const auto other =
            wisdom.find(records[static_cast<std::size_t>((t + 1) % 4)].problem, test::h200());
        if (!other) ++wrong;  // nearest at least
        if (round % 4 == 3) wisdom.reload();
        if (round % 4 == 2 && wisdom.list().empty()) ++wrong;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(wrong == 0);
  CHECK(tune::verify(wisdom).empty());
}

TEST_CASE("processes that record the same question leave one sound record", "[tune]") {
  const test::Scratch scratch;
  const tune::Record record = test::record_of(test::problem_in_words(words_of(1).c_str()));
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      tune::Wisdom wisdom(scratch.path(), "");
      bool good = true;
      for (int round = 0; round < 20; ++round) good = wisdom.add(record).ok() && good;
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  const tune::Wisdom wisdom(scratch.path(), "");
  CHECK(tune::verify(wisdom).empty());
  const auto hint = wisdom.find(record.problem, test::h200());
  REQUIRE(hint);
  CHECK(hint->match == tune::Match::exact);
}

// The bug: a child of a fork waited forever for wisdom that another thread of its parent was just
// being asked for (2 of 400 such children).
TEST_CASE("a child of fork() may ask, whatever its parent's threads were doing", "[tune]") {
  const test::Scratch scratch;
  tune::Wisdom wisdom(scratch.path(), "");
  const Problem problem = test::problem_in_words(words_of(1));
  for (int i = 1; i <= 6; ++i) {
    REQUIRE(wisdom.add(test::record_of(test::problem_in_words(words_of(i)))));
  }
  std::atomic<bool> over{false};
  std::thread asking([&] {
    while (!over) {
      wisdom.reload();  // so that files are read under the lock
      (void)wisdom.find(problem, test::h200());
    }
  });
  int hung = 0;
  for (int i = 0; i < 60; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      ::_exit(wisdom.find(problem, test::h200()) ? 0 : 1);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) ++hung;
  }
  over = true;
  asking.join();
  CHECK(hung == 0);
}
