// Writes that meet a limit on file sizes.
#pragma once

#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace kda::base::file {

// A file past RLIMIT_FSIZE ends the process by SIGXFSZ unless that is blocked; then it is an EFBIG.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    (void)pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoSizeSignal() {
    const int error = errno;
    if (sigismember(&before_, SIGXFSZ) == 0) {
      const timespec at_once{};
      (void)sigtimedwait(&signal_, nullptr, &at_once);  // ours, if the limit was met
    }
    (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  sigset_t signal_{}, before_{};
};

}  // namespace kda::base::file
