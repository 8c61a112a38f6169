// How far a long job is, on stderr: a bar with the time left on a terminal, elsewhere a plain line
// now and then.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace kda::cli {

class Progress {
 public:
  struct Settings {
    bool quiet = false;                                 // prints nothing at all
    double limit_seconds = 0;                           // the job ends by then; 0: when it is done
    std::chrono::duration<double> between_lines{10.0};  // off a terminal
  };

  Progress(std::FILE* stream, std::size_t total, const Settings& settings);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The next of the total begins.
  void step(std::string_view what);
  // Something that belongs to no step, before the first.
  void wait(std::string_view for_what);
  // How far the present step is, 0 to 1, and what it is at.
  void within(double fraction, std::string_view detail);
  // A sentence that must stay visible: something skipped, something wrong.
  void note(std::string_view line);

 private:
  using Clock = std::chrono::steady_clock;

  void clear();
  void show(bool at_once);
  double seconds() const;
  std::string left() const;
  std::string text() const;

  std::FILE* stream_;
  std::size_t total_;
  Settings settings_;
  bool terminal_;
  Clock::time_point start_ = Clock::now(), shown_{};
  std::size_t begun_ = 0;
  double fraction_ = 0;  // of the present step
  std::string what_, detail_;
};

// "9 s", "2:05 min", "1:02 h"
std::string duration_text(double seconds);

}  // namespace kda::cli
