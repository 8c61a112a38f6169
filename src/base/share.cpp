#include "base/share.hpp"

#include <sys/stat.h>

#include "base/env.hpp"

namespace kda::base {
namespace {

constexpr mode_t kAll = 0777, kOfFiles = 0666, kOfOthers = 0077;

// Of the directory that the path is in, for others than the user; none: nothing is shared there.
mode_t mode_around(const std::string& path) {
  if (!env::flag("KDA_CACHE_TRUST_SHARED", false)) return 0;
  const std::size_t slash = path.find_last_of('/');
  const std::string around = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct stat status {};
  if (::stat(around.c_str(), &status) != 0 || (status.st_mode & S_ISVTX) != 0) return 0;
  return (status.st_mode & kOfOthers) != 0 ? (status.st_mode & kAll) | S_IRWXU : 0;
}

}  // namespace

void share_file(int descriptor, const std::string& path) {
  if (const mode_t mode = mode_around(path)) (void)::fchmod(descriptor, mode & kOfFiles);
}

void share_directory(const std::string& path) {
  struct stat status {};
  const mode_t mode = mode_around(path);
  if (mode == 0 || ::stat(path.c_str(), &status) != 0) return;
  // Its group is the directory's around where that is so there.
  (void)::chmod(path.c_str(), mode | (status.st_mode & S_ISGID));
}

}  // namespace kda::base
