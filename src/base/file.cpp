#include "base/file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <utility>

#include "base/fault.hpp"
#include "base/share.hpp"
#include "base/size_signal.hpp"

namespace kda::base::file {
namespace {

// The step's call, unless a test wants it to fail: -1 and errno, as the call itself would.
template <class Call>
auto stepped(const char* step, Call call) -> decltype(call()) {
  if (const int error = fault::at(step)) {
    errno = error;
    return -1;
  }
  return call();
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { (void)close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int fd() const { return fd_; }
  // Some filesystems report a failed write only here.
  int close() {
    const int fd = fd_;
    fd_ = -1;
    return fd >= 0 && ::close(fd) != 0 ? errno : 0;
  }

 private:
  int fd_;
};

int open_again(const char* step, const char* path, int flags, mode_t mode) {
  int fd = -1;
  do {
    fd = stepped(step, [&] { return ::open(path, flags, mode); });
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// At once; in two pieces where tests want to stop between them.
int write_all(int fd, std::string_view contents) {
  const NoSizeSignal blocked;
  const bool tested = fault::hook() != nullptr;
  const std::size_t piece = tested ? contents.size() / 2 + 1 : contents.size();
  while (!contents.empty()) {
    const ssize_t n = stepped(
        "write", [&] { return ::write(fd, contents.data(), std::min(piece, contents.size())); });
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    contents.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

int write_new(const std::string& path, std::string_view contents) {
  Descriptor file(open_again("create", path.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.fd() < 0) return errno;
  share_file(file.fd(), share_mode(path));
  if (const int error = write_all(file.fd(), contents)) return error;
  if (stepped("fsync", [&] { return ::fsync(file.fd()); }) != 0) return errno;
  if (const int error = fault::at("close")) return error;
  return file.close();
}

Info info_of(const struct stat& status) {
  return {.bytes = static_cast<std::size_t>(status.st_size < 0 ? 0 : status.st_size),
          .changed = status.st_mtim.tv_sec,
          .owner = status.st_uid,
          .directory = S_ISDIR(status.st_mode),
          .link = S_ISLNK(status.st_mode),
          .plain = S_ISREG(status.st_mode),
          .others_write = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0};
}

}  // namespace

std::string describe(int error) {
  const char* name = strerrorname_np(error);
  return fmt::format("{} ({})", std::strerror(error), name != nullptr ? name : "?");
}

std::string join(std::string_view directory, std::string_view name) {
  return fmt::format("{}/{}", directory, name);
}

std::string absolute(std::string path) {
  if (!path.starts_with('/')) {
    const std::unique_ptr<char, void (*)(void*)> here(::getcwd(nullptr, 0), std::free);
    if (here) path = join(here.get(), path);
  }
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

int info(const std::string& path, Info& info, bool itself) {
  struct stat status {};
  const int flags = itself ? AT_SYMLINK_NOFOLLOW : 0;
  const auto call = [&] { return ::fstatat(AT_FDCWD, path.c_str(), &status, flags); };
  if (stepped("stat", call) != 0) return errno;
  info = info_of(status);
  return 0;
}

int read(const std::string& path, std::size_t max_bytes, std::string& contents, Info* found) {
  // O_NONBLOCK: a fifo put in a file's place must not stop us.
  Descriptor file(open_again("open", path.c_str(),
                             O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0));
  if (file.fd() < 0) return errno;
  struct stat status {};
  if (stepped("fstat", [&] { return ::fstat(file.fd(), &status); }) != 0) return errno;
  const Info info = info_of(status);
  if (!info.plain) return EINVAL;
  if (info.bytes > max_bytes) return EFBIG;
  contents.resize(info.bytes);
  std::size_t done = 0;
  while (done < contents.size()) {
    const ssize_t n = stepped(
        "read", [&] { return ::read(file.fd(), contents.data() + done, contents.size() - done); });
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) break;  // it shrank under us
    done += static_cast<std::size_t>(n);
  }
  contents.resize(done);
  if (found != nullptr) *found = info;
  return 0;
}

int publish(const std::string& temporary, const std::string& path, std::string_view contents) {
  static std::atomic<unsigned> count{0};
  std::string aside;
  int error = EEXIST;
  for (int attempt = 0; error == EEXIST && attempt < 100; ++attempt) {
    aside = fmt::format("{}/{}.{}", temporary, ::getpid(), count++);
    error = write_new(aside, contents);
  }
  if (error == EEXIST) return error;  // nothing of ours to clean up
  if (error == 0) error = move(aside, path);
  if (error != 0) (void)::unlink(aside.c_str());
  return error;
}

Appender::~Appender() {
  if (fd_ >= 0) (void)::close(fd_);
}

Appender::Appender(Appender&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Appender& Appender::operator=(Appender&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

int Appender::open(const std::string& path, Start start) {
  const int begin = start == Start::anew ? O_TRUNC : 0;
  // O_NONBLOCK: a fifo that nobody reads is an ENXIO, and does not stop us.
  fd_ = open_again(
      "create", path.c_str(),
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | begin, 0600);
  if (fd_ < 0) return errno;
  struct stat status {};
  if (::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode)) {
    share_file(fd_, share_mode(path));
    return 0;
  }
  (void)::close(std::exchange(fd_, -1));
  return EINVAL;
}

// NOLINTNEXTLINE(readability-make-member-function-const): the file changes
int Appender::append(std::string_view text) { return fd_ < 0 ? EBADF : write_all(fd_, text); }

int make_directories(const std::string& path) {
  if (path.empty()) return ENOENT;
  const auto make = [&] {
    const int made = stepped("mkdir", [&] { return ::mkdir(path.c_str(), 0700); });
    if (made == 0) share_directory(path, share_mode(path));
    return made;
  };
  if (make() == 0) return 0;
  if (errno == ENOENT) {
    const std::size_t slash = path.find_last_of('/');
    if (slash == std::string::npos || slash == 0) return ENOENT;
    if (const int error = make_directories(path.substr(0, slash))) return error;
    if (make() == 0) return 0;
  }
  const int error = errno;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return error;
  return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
}

int move(const std::string& from, const std::string& to) {
  const auto call = [&] { return ::rename(from.c_str(), to.c_str()); };
  return stepped("rename", call) == 0 ? 0 : errno;
}

int remove(const std::string& path) {
  return stepped("unlink", [&] { return ::unlink(path.c_str()); }) == 0 ? 0 : errno;
}

int touch(const std::string& path) {
  const auto call = [&] {
    return ::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  };
  return stepped("touch", call) == 0 ? 0 : errno;
}

std::int64_t now() { return std::time(nullptr); }

int list(const std::string& directory, std::vector<std::string>& names) {
  if (const int error = fault::at("list")) return error;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(directory.c_str()), ::closedir);
  if (!open) return errno;
  names.clear();
  errno = 0;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return errno;
  std::sort(names.begin(), names.end());
  return 0;
}

int stamp(const std::string& path, std::string& text, std::string* real_path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  if (!real) return errno;
  struct stat status {};
  if (::stat(real.get(), &status) != 0) return errno;
  text = fmt::format("{} {} {}.{:09} {}", real.get(), status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec, status.st_ino);
  if (real_path != nullptr) *real_path = real.get();
  return 0;
}

}  // namespace kda::base::file
