#include "base/share.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/trust.hpp"

namespace kda::base {
namespace {

constexpr mode_t kAll = 0777, kOfFiles = 0666, kOfOthers = 0077;

bool is_ours_alone(const struct stat& status) {
  return status.st_uid == ::geteuid() && (status.st_mode & kOfOthers) == 0;
}

}  // namespace

unsigned share_mode(const std::string& path) {
  if (!trusts_others()) return 0;
  const std::size_t slash = path.find_last_of('/');
  const std::string around = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct stat status {};
  if (::stat(around.c_str(), &status) != 0 || (status.st_mode & S_ISVTX) != 0) return 0;
  return (status.st_mode & kOfOthers) != 0 ? (status.st_mode & kAll) | S_IRWXU : 0;
}

void share_file(int descriptor, unsigned mode) {
  struct stat status {};
  if (mode == 0 || ::fstat(descriptor, &status) != 0) return;
  // Of two names one may be where nobody meant to share it.
  if (!is_ours_alone(status) || status.st_nlink != 1 || !S_ISREG(status.st_mode)) return;
  (void)::fchmod(descriptor, mode & kOfFiles);
}

void share_directory(const std::string& path, unsigned mode) {
  if (mode == 0) return;
  // Others may have put a link in its place since it was made.
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status {};
  // Its group is the directory's around where that is so there.
  if (::fstat(fd, &status) == 0 && is_ours_alone(status)) {
    (void)::fchmod(fd, mode | (status.st_mode & S_ISGID));
  }
  (void)::close(fd);
}

}  // namespace kda::base
