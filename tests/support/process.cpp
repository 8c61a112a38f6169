#include "support/process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>

namespace kda::test {

Child::Child(const std::function<int()>& body) {
  std::fflush(nullptr);
  id_ = ::fork();
  if (id_ < 0) throw std::runtime_error("fork");
  if (id_ != 0) return;
  for (const int number : {SIGSEGV, SIGABRT, SIGTERM, SIGFPE, SIGILL}) ::signal(number, SIG_DFL);
  ::signal(SIGALRM, [](int) { ::_exit(71); });
  ::alarm(60);
  int code = 70;
  try {
    code = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
  }
  std::fflush(nullptr);
  ::_exit(code);
}

Child::~Child() {
  if (id_ <= 0) return;
  ::kill(id_, SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

void Child::signal(int number) const { ::kill(id_, number); }

bool Child::wait_for_stop() {
  int status = 0;
  ::waitpid(id_, &status, WUNTRACED);
  if (WIFSTOPPED(status)) return true;
  id_ = -1;
  return false;
}

int Child::wait() {
  int status = 0;
  ::waitpid(id_, &status, 0);
  id_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace kda::test
