// How the library reads and writes files, with base/file_lock; src/cache removes trees and resolves
// a bundle's path by std::filesystem.  Calls answer 0 or the errno that stopped them.  What they
// make is for this user only, or for whom base/share says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kda::base::file {

// "No such file or directory (ENOENT)".
std::string describe(int error);

std::string join(std::string_view directory, std::string_view name);

// From the working directory where it is relative; without trailing slashes.
std::string absolute(std::string path);

struct Info {
  std::size_t bytes = 0;
  std::int64_t changed = 0;  // seconds since the epoch; what touch() sets
  unsigned owner = 0;
  bool directory = false, link = false, plain = false;
  bool others_write = false;  // the group or the world may
};

// Of what the path leads to, links followed or, with `itself`, not.
int info(const std::string& path, Info& info, bool itself = false);

// The whole of a regular file; symbolic links are not followed.  EFBIG above max_bytes, EINVAL for
// anything but a file.  `found` may be null.
int read(const std::string& path, std::size_t max_bytes, std::string& contents,
         Info* found = nullptr);

// Writes a new file in `temporary` (a directory of the same filesystem), flushes it and renames it
// to path: others see the old contents or the new, never a part.
int publish(const std::string& temporary, const std::string& path, std::string_view contents);

// A file that only grows, line by line; each line is the kernel's when append() returns, so a
// killed process loses none.
class Appender {
 public:
  enum class Start { anew, at_end };

  Appender() = default;
  ~Appender();
  Appender(Appender&& other) noexcept;
  Appender& operator=(Appender&& other) noexcept;

  // EINVAL or ENXIO for anything but a file.
  int open(const std::string& path, Start start);
  int append(std::string_view text);

 private:
  int fd_ = -1;
};

// With its parents.  Fine if it is there.
int make_directories(const std::string& path);

int move(const std::string& from, const std::string& to);
int remove(const std::string& path);

// Marks the file as used now.
int touch(const std::string& path);
// Seconds since the epoch, as touch() writes them.
std::int64_t now();

// Names of a directory's entries, sorted, without . and ..
int list(const std::string& directory, std::vector<std::string>& names);

// Tells a file's versions apart without reading it: real path, size, time of change, inode.
// `real_path` may be null.
int stamp(const std::string& path, std::string& text, std::string* real_path = nullptr);

}  // namespace kda::base::file
