#include "base/file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "base/file.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/share.hpp"
#include "base/size_signal.hpp"
#include "base/text.hpp"

namespace kda::base::file {
namespace {

constexpr std::size_t kMaxNote = 512;
constexpr int kMostTries = 100;

// Descriptors that hold locks: of a child of fork() each is a copy, by which the lock would outlive
// its holder.
struct Open {
  ForkMutex mutex{ForkRank::files};
  std::vector<int> descriptors;
};

Open& open_locks() {
  static constinit Lazy<Open> of_process;
  return of_process.get();
}

// Of what was made at load: in a child no mutex may be made yet.
void close_in_child() {
  for (const int fd : open_locks().descriptors) (void)::close(fd);
  open_locks().descriptors.clear();
}

[[maybe_unused]] const bool closes_in_children = [] {
  open_locks();
  return ::pthread_atfork(nullptr, nullptr, close_in_child) == 0;
}();

// For people who wait; nothing depends on it.
void write_note(int fd) {
  std::array<char, 256> host = {};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const std::string note = fmt::format("process {} on {}\n", ::getpid(), host.data());
  if (::ftruncate(fd, 0) != 0) return;
  const NoSizeSignal blocked;
  const ssize_t written = ::pwrite(fd, note.data(), note.size(), 0);
  (void)written;
}

int open_and_lock(const std::string& path, unsigned shared, int& fd) {
  fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errno;
  share_file(fd, shared);
  if (const int error = fault::at("flock")) {
    (void)::close(fd);
    return error;
  }
  int result = 0;
  do {
    result = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return 0;
  const int error = errno;
  (void)::close(fd);
  return error;
}

// Else it is closed: who held it took the file away since it was opened, and others lock another.
bool is_still_at(const std::string& path, int fd) {
  struct stat locked {};
  struct stat there {};
  const bool same = ::fstat(fd, &locked) == 0 && ::lstat(path.c_str(), &there) == 0 &&
                    locked.st_dev == there.st_dev && locked.st_ino == there.st_ino;
  if (!same) (void)::close(fd);
  return same;
}

// Local ones, by statfs(2)'s numbers.
constexpr std::uint32_t filesystems[] = {
    0x0000EF53,  // ext2, ext3, ext4
    0x58465342,  // XFS
    0x9123683E,  // Btrfs
    0x01021994,  // tmpfs
    0x794C7630,  // overlayfs
    0x2FC12FC1,  // ZFS
    0xF2F52010,  // F2FS
    0xCA451A4E,  // bcachefs
    0x858458F6,  // ramfs
};

}  // namespace

int Lock::try_acquire(const std::string& path) {
  release();
  if (const int error = fault::at("lock")) return error;
  const unsigned shared = share_mode(path);
  Open& open = open_locks();
  const std::lock_guard lock(open.mutex);  // a fork finds none that is not in the list
  open.descriptors.reserve(open.descriptors.size() + 1);
  int fd = -1, tries = 0;
  do {
    if (tries++ == kMostTries) return EWOULDBLOCK;
    if (const int error = open_and_lock(path, shared, fd)) return error;
  } while (!is_still_at(path, fd));
  write_note(fd);
  open.descriptors.push_back(fd);
  fd_ = fd;
  forks_ = forks();
  return 0;
}

void Lock::release() noexcept {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0 || is_inherited()) return;
  Open& open = open_locks();
  const std::lock_guard lock(open.mutex);
  std::erase(open.descriptors, fd);
  // Said aloud: a child that was forked by other means may hold a copy of the descriptor.
  (void)::flock(fd, LOCK_UN);
  (void)::close(fd);
}

bool Lock::is_inherited() const noexcept { return forks_ != forks(); }

std::string holder_of(const std::string& path) {
  std::string note;
  if (read(path, kMaxNote, note) != 0) return {};
  return std::string(trim(note));
}

bool locks_work(const std::string& path) {
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return false;
  return std::count(std::begin(filesystems), std::end(filesystems),
                    static_cast<std::uint32_t>(status.f_type)) > 0;
}

}  // namespace kda::base::file
