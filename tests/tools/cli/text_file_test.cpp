#include "cli/text_file.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "cli/failure.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

using namespace kda;
namespace fs = std::filesystem;

namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The exit code and the sentence with which it fails.
std::pair<int, std::string> failure_of(const std::string& path, std::FILE* out = stdout) {
  try {
    cli::write_text(path, std::string(1 << 16, 'x'), out);
  } catch (const cli::Failure& failure) {
    return {failure.code, failure.what()};
  }
  return {cli::kOk, ""};
}

}  // namespace

TEST_CASE("a file is written whole, and a bad path says why", "[tools]") {
  const test::Scratch scratch;
  cli::write_text(scratch / "rows.txt", "text\n", stdout);
  CHECK(text_of(scratch / "rows.txt") == "text\n");
  const auto [code, sentence] = failure_of(scratch / "none/rows.txt");
  CHECK(code == cli::kBadCommand);
  CHECK_THAT(sentence, test::contains("none/rows.txt: No such file"));
  CHECK(failure_of(scratch / "").first == cli::kBadCommand);  // a directory
  CHECK(std::distance(fs::directory_iterator(scratch / ""), {}) == 1);
}

// The bug: kda-bench and kda-tune tune found out after minutes of measurement that the folder of
// --json or --output does not exist, and what they had measured was gone.
TEST_CASE("whether a path can be written is known before, and nothing is left there", "[tools]") {
  const test::Scratch scratch;
  const auto failure = [](const std::string& path) -> std::pair<int, std::string> {
    try {
      cli::check_writable(path);
    } catch (const cli::Failure& failure) {
      return {failure.code, failure.what()};
    }
    return {cli::kOk, ""};
  };
  CHECK(failure(scratch / "none/rows.txt") == failure_of(scratch / "none/rows.txt"));
  CHECK(failure(scratch / "").first == cli::kBadCommand);  // a directory
  for (const std::string& path :
       {std::string(), std::string("-"), std::string("/dev/null"), scratch / "rows.txt"}) {
    CHECK(failure(path).second == "");
  }
  CHECK(fs::is_empty(scratch / ""));
  cli::write_text(scratch / "rows.txt", "text\n", stdout);
  CHECK(failure(scratch / "rows.txt").second == "");
  CHECK(text_of(scratch / "rows.txt") == "text\n");
  const std::string pipe = scratch / "pipe";  // nobody reads it
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(failure(pipe).second == "");
}

// The bug: --output renamed a file onto whatever was there, so a device or a pipe became a plain
// file, /dev/null too, and of a link its target kept what it had.
TEST_CASE("what is no plain file is written to, and a link's target in its stead", "[tools]") {
  const test::Scratch scratch;
  const std::string pipe = scratch / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  cli::write_text(pipe, "text\n", stdout);
  char read_back[16] = {};
  CHECK(read(reader, read_back, sizeof(read_back)) == 5);
  CHECK(std::string(read_back) == "text\n");
  CHECK(fs::is_fifo(pipe));
  close(reader);

  cli::write_text(scratch / "real.txt", "before\n", stdout);
  fs::create_symlink("real.txt", scratch / "link.txt");
  fs::create_symlink("later.txt", scratch / "dangling.txt");
  cli::write_text(scratch / "link.txt", "after\n", stdout);
  cli::write_text(scratch / "dangling.txt", "new\n", stdout);
  CHECK(fs::is_symlink(scratch / "link.txt"));
  CHECK(text_of(scratch / "real.txt") == "after\n");
  CHECK(text_of(scratch / "later.txt") == "new\n");
  CHECK(std::distance(fs::directory_iterator(scratch / ""), {}) == 5);
}

// The bug: /dev/stdout led to the file behind it, in whose place a new one was put.
TEST_CASE("what is open already is written to, and not replaced", "[tools]") {
  const test::Scratch scratch;
  std::ofstream(scratch / "rows.txt") << "before\n";
  std::FILE* const out = std::fopen((scratch / "rows.txt").c_str(), "a");
  REQUIRE(out != nullptr);
  cli::write_text("/dev/stdout", "more\n", out);
  cli::write_text("/proc/self/fd/" + std::to_string(fileno(out)), "and more\n", stdout);
  std::fclose(out);
  CHECK(text_of(scratch / "rows.txt") == "before\nmore\nand more\n");
}

// The bug: results written to a full disk by way of stdout were gone, and the exit code was 0.
TEST_CASE("what a full device does not take is a failure", "[tools]") {
  CHECK(failure_of("/dev/full").first == cli::kFailed);
  std::FILE* const full = std::fopen("/dev/full", "w");
  REQUIRE(full != nullptr);
  const auto [code, sentence] = failure_of("-", full);
  std::fclose(full);
  CHECK(code == cli::kFailed);
  CHECK_THAT(sentence, test::contains("standard output"));
}

// The bug: where nothing can take a file's place, as where it is mounted by itself or its folder is
// another's, results were lost after the minutes that they took, or refused before.
TEST_CASE("a file whose place no other can take is written itself", "[tools]") {
  if (geteuid() != 0) {
    WARN("skipped: only root can mount a file and be another user");
    return;
  }
  const test::Scratch scratch;
  for (const char* name : {"rows.txt", "source.txt"}) {
    std::ofstream(scratch / name) << "a longer text before\n";
  }
  SECTION("it is mounted by itself") {
    const int code = test::in_child([&] {
      if (unshare(CLONE_NEWNS) != 0 ||
          mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          mount((scratch / "source.txt").c_str(), (scratch / "rows.txt").c_str(), nullptr, MS_BIND,
                nullptr) != 0) {
        return 77;
      }
      cli::check_writable(scratch / "rows.txt");
      cli::write_text(scratch / "rows.txt", "after\n", stdout);
      return 0;
    });
    if (code == 77) {
      WARN("skipped: this user may not mount a file");
    } else {
      CHECK(code == 0);
      CHECK(text_of(scratch / "source.txt") == "after\n");
      CHECK(std::distance(fs::directory_iterator(scratch / ""), {}) == 2);
    }
  }
  SECTION("its folder is another's") {
    REQUIRE(chmod(scratch.path().c_str(), 0755) == 0);
    REQUIRE(chown((scratch / "rows.txt").c_str(), 12345, 12345) == 0);
    CHECK(test::in_child([&] {
            if (setgid(12345) != 0 || setuid(12345) != 0) return 3;
            cli::check_writable(scratch / "rows.txt");
            cli::write_text(scratch / "rows.txt", "after\n", stdout);
            return 0;
          }) == 0);
    CHECK(text_of(scratch / "rows.txt") == "after\n");
  }
}

// The bug: a file that nobody may write was replaced without a word, a private one could be read by
// all from then on, another owner lost his, and other names of a file kept what it had.
TEST_CASE("a protected file stays, and what is written keeps its mode, names and owner",
          "[tools]") {
  const test::Scratch scratch;
  const auto path = [&](const char* name) { return scratch / name; };
  const bool root = geteuid() == 0;
  if (root) REQUIRE(chown(scratch.path().c_str(), 12345, 12345) == 0);
  CHECK(test::in_child([&] {
          if (root && (setgid(12345) != 0 || setuid(12345) != 0)) return 3;
          for (const char* name : {"protected", "private", "one"}) {
            std::ofstream(path(name)) << "before\n";
          }
          if (chmod(path("protected").c_str(), 0444) != 0) return 4;
          if (chmod(path("private").c_str(), 0600) != 0) return 4;
          fs::create_hard_link(path("one"), path("other"));
          cli::write_text(path("private"), "after\n", stdout);
          cli::write_text(path("one"), "after\n", stdout);
          const auto [code, sentence] = failure_of(path("protected"));
          const bool said = sentence.find("protected: Permission denied") != std::string::npos;
          if (code != cli::kBadCommand || !said) return 5;
          try {
            cli::check_writable(path("protected"));
          } catch (const cli::Failure& failure) {
            return failure.what() == sentence ? 0 : 6;
          }
          return 7;
        }) == 0);
  CHECK(text_of(path("protected")) == "before\n");
  CHECK(text_of(path("private")) == "after\n");
  CHECK(text_of(path("other")) == "after\n");
  struct stat there = {};
  REQUIRE(stat(path("private").c_str(), &there) == 0);
  CHECK((there.st_mode & 07777U) == 0600);
  CHECK(std::distance(fs::directory_iterator(scratch / ""), {}) == 4);
  if (!root) return;
  cli::write_text(path("private"), "by root\n", stdout);
  REQUIRE(stat(path("private").c_str(), &there) == 0);
  CHECK(there.st_uid == 12345);
}

TEST_CASE("two names of one file are told, there yet or not", "[tools]") {
  const test::Scratch scratch;
  const std::string file = scratch / "rows.txt";
  CHECK(cli::is_same_file(file, scratch / "./rows.txt"));
  std::ofstream(file) << "before\n";
  fs::create_symlink("rows.txt", scratch / "link.txt");
  CHECK(cli::is_same_file(file, scratch / "link.txt"));
  CHECK(cli::is_same_file("-", "/dev/stdout"));
  CHECK_FALSE(cli::is_same_file(file, scratch / "other.txt"));
  CHECK_FALSE(cli::is_same_file("", ""));
  CHECK_FALSE(cli::is_same_file("/dev/null", "/dev/null"));
}
