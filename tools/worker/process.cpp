#include "worker/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "base/text.hpp"

namespace kda::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGrace{5};  // for a process to end by itself once told to
constexpr std::size_t kLastWords = 300;    // bytes of stderr that are told

void close_if_open(int& fd) {
  if (fd >= 0) (void)::close(fd);
  fd = -1;
}

// Between fork and exec: only what a signal handler may do.
[[noreturn]] void become(const std::vector<char*>& argv, int in, int out, int errors) {
  (void)::setpgid(0, 0);
  if (::dup2(in, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(errors, 2) >= 0) {
    (void)::execv(argv[0], argv.data());
  }
  ::_exit(127);
}

std::string last_words(int fd) {
  const off_t size = fd >= 0 ? ::lseek(fd, 0, SEEK_END) : 0;
  if (size <= 0) return {};
  std::array<char, kLastWords> text{};
  const auto begin = size > off_t{kLastWords} ? size - off_t{kLastWords} : off_t{0};
  const ssize_t got = ::pread(fd, text.data(), text.size(), begin);
  if (got <= 0) return {};
  return std::string(base::trim({text.data(), static_cast<std::size_t>(got)}));
}

}  // namespace

Result<Process> Process::start(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& each : arguments) argv.push_back(const_cast<char*>(each.c_str()));
  argv.push_back(nullptr);

  int in[2] = {-1, -1}, out[2] = {-1, -1};
  Process process;
  const bool piped = ::pipe2(in, O_CLOEXEC) == 0 && ::pipe2(out, O_CLOEXEC) == 0;
  process.errors_ = ::memfd_create("kda worker", MFD_CLOEXEC);
  const pid_t pid = piped ? ::fork() : -1;
  if (pid == 0) become(argv, in[0], out[1], process.errors_);
  const int error = errno;
  close_if_open(in[0]);
  close_if_open(out[1]);
  process.to_ = in[1];
  process.from_ = out[0];
  process.pid_ = pid;
  if (pid < 0) {
    return Status(Code::device_error,
                  fmt::format("{} cannot be started: {}", arguments.front(), std::strerror(error)));
  }
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      to_(std::exchange(other.to_, -1)),
      from_(std::exchange(other.from_, -1)),
      errors_(std::exchange(other.errors_, -1)),
      pending_(std::move(other.pending_)) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(to_, other.to_);
  std::swap(from_, other.from_);
  std::swap(errors_, other.errors_);
  std::swap(pending_, other.pending_);
  return *this;
}

Process::~Process() {
  if (pid_ > 0) {
    (void)::kill(pid_, SIGKILL);
    (void)::waitpid(pid_, nullptr, 0);
  }
  close_if_open(to_);
  close_if_open(from_);
  close_if_open(errors_);
}

// NOLINTNEXTLINE(readability-make-member-function-const): the process hears it
bool Process::send(const std::string& line) {
  // A dead reader must cost an error, not this process.
  static const bool ignored = [] { return std::signal(SIGPIPE, SIG_IGN) != SIG_ERR; }();
  (void)ignored;
  const std::string text = line + "\n";
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = ::write(to_, text.data() + sent, text.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

Process::Heard Process::hear(std::string& line, Clock::time_point deadline) {
  for (;;) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return Heard::line;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Heard::too_late;
    pollfd wait{from_, POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::min<long long>(left, 60'000)));
    if (ready < 0 && errno != EINTR) return Heard::ended;
    if (ready <= 0) continue;
    std::array<char, 4096> buffer;
    const ssize_t n = ::read(from_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Heard::ended;
    pending_.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

std::string Process::end() {
  if (pid_ <= 0) return "it never started";
  close_if_open(to_);
  int status = 0;
  pid_t done = 0;
  const auto deadline = Clock::now() + kGrace;
  while ((done = ::waitpid(pid_, &status, WNOHANG)) == 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (done == 0) {
    (void)::kill(pid_, SIGKILL);
    done = ::waitpid(pid_, &status, 0);
  }
  pid_ = -1;
  std::string how = "it ended";
  if (done > 0 && WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const char* name = ::sigabbrev_np(number);
    how = fmt::format("SIG{} ({})", name != nullptr ? name : "?", ::strsignal(number));
  } else if (done > 0) {
    how = fmt::format("exit code {}", WEXITSTATUS(status));
  }
  const std::string words = last_words(errors_);
  return words.empty() ? how : how + ": " + words;
}

void end_with(int fd) {
  std::thread([fd] {
    pollfd wait{fd, 0, 0};
    while (::poll(&wait, 1, -1) <= 0 || (wait.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0) {
    }
    std::this_thread::sleep_for(kGrace / 2);  // most end by themselves
    ::_exit(1);
  }).detach();
}

std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t n = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string name(path.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  // Rebuilt or removed since it was started, as which it goes on.
  return ::access(name.c_str(), X_OK) == 0 ? name : "/proc/self/exe";
}

}  // namespace kda::worker
