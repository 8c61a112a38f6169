// A child process that is talked to line by line, with a watchdog.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "kda/status.hpp"

namespace kda::worker {

class Process {
 public:
  // Starts arguments[0] with stdin and stdout as pipes; what it says on stderr is kept.  It takes
  // no part in a Ctrl-C meant for this one, and shall end when its stdin does (end_with).
  static Result<Process> start(const std::vector<std::string>& arguments);

  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // kills it

  // False where it no longer listens.
  bool send(const std::string& line);

  enum class Heard { line, ended, too_late };
  // The next line, without its newline; waits until the deadline.
  Heard hear(std::string& line, std::chrono::steady_clock::time_point deadline);

  // Ends it, by force if need be, and says how it ended: "exit code 1: <its last words>",
  // "SIGSEGV (Segmentation fault)".
  std::string end();

 private:
  Process() = default;

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1, errors_ = -1;
  std::string pending_;
};

// For the child: ends this process soon after the other side of the pipe `fd` is closed, whatever
// it is doing, so that a hanging kernel does not outlive its search.
void end_with(int fd);

// The program of this process, to start it again.
std::string own_program();

}  // namespace kda::worker
