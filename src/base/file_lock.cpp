#include "base/file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include "base/fault.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace kda::base::file {
namespace {

constexpr std::size_t kMaxNote = 512;

// For people who wait; nothing depends on it.
void write_note(int fd) {
  std::array<char, 256> host = {};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const std::string note = fmt::format("process {} on {}\n", ::getpid(), host.data());
  if (::ftruncate(fd, 0) != 0) return;
  const ssize_t written = ::pwrite(fd, note.data(), note.size(), 0);
  (void)written;
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
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errno;
  int result = 0;
  do {
    result = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    const int error = errno;
    (void)::close(fd);
    return error;
  }
  write_note(fd);
  fd_ = fd;
  return 0;
}

void Lock::release() noexcept {
  if (fd_ < 0) return;
  // Said aloud: a forked child may hold a copy of the descriptor.
  (void)::flock(fd_, LOCK_UN);
  (void)::close(fd_);
  fd_ = -1;
}

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
