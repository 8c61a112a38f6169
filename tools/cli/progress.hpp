// How far a long job is, on stderr: a bar on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace kda::cli {

class Progress {
 public:
  // quiet prints nothing at all.
  Progress(std::FILE* stream, std::size_t total, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The next of the total begins.
  void step(std::string_view what);
  // A sentence that must stay visible: something skipped, something wrong.
  void note(std::string_view line);

 private:
  void clear();
  void draw();

  using Clock = std::chrono::steady_clock;
  std::FILE* stream_;
  std::size_t total_;
  std::size_t begun_ = 0;
  bool quiet_;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  std::string what_;
};

}  // namespace kda::cli
