#include "cli/text_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "cli/failure.hpp"

namespace kda::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(ExitCode code, const char* what, const std::string& path, int error) {
  throw Failure(code, fmt::format("{} {}: {}", what, path, std::strerror(error)));
}

void write_all(std::FILE* file, const std::string& text, const std::string& name) {
  if (std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0)
    return;
  fail(kFailed, "cannot write", name, errno);
}

// named: what people know it as.
void write_to(const std::string& path, const std::string& text, const std::string& named,
              const char* mode) {
  std::FILE* file = std::fopen(path.c_str(), mode);
  if (file == nullptr) fail(kBadCommand, "cannot open", named, errno);
  try {
    write_all(file, text, named);
  } catch (...) {
    std::fclose(file);
    throw;
  }
  if (std::fclose(file) != 0) fail(kFailed, "cannot write", named, errno);
}

// A plain file, or none yet, so that another one may take its place; but not one that is open
// already, as /dev/stdout is where it was redirected.
bool may_be_replaced(const std::string& path) {
  for (const char* open : {"/dev/std", "/dev/fd/", "/proc/"}) {
    if (path.starts_with(open)) return false;
  }
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const bool dangling = fs::is_symlink(fs::symlink_status(path, error));
  return fs::is_regular_file(status) || (status.type() == fs::file_type::not_found && !dangling);
}

// Of a link, its target.
std::string real_of(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? path : real.string();
}
// Where what will stand at `real` is written.
std::string aside_of(const std::string& real) { return fmt::format("{}.{}.new", real, getpid()); }

// Fails where a file stands that is protected: no other takes its place.
void check_unprotected(const std::string& real, const std::string& named) {
  if (access(real.c_str(), W_OK) != 0 && errno != ENOENT) {
    fail(kBadCommand, "cannot open", named, errno);
  }
}

// Whether a new file may take the place: not of one that has other names or another owner, which
// it would lose, nor where the folder may not be written.
bool takes_files_beside(const std::string& real) {
  struct stat there = {};
  if (stat(real.c_str(), &there) != 0) return true;
  const std::size_t slash = real.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : real.substr(0, slash + 1);
  return there.st_nlink == 1 && there.st_uid == geteuid() && access(folder.c_str(), W_OK) == 0;
}

// Empty, and for those alone who may read what it will replace.
void make_aside(const std::string& aside, const std::string& real, const std::string& named) {
  write_to(aside, "", named, "w");
  struct stat there = {};
  if (stat(real.c_str(), &there) == 0) chmod(aside.c_str(), there.st_mode & 07777U);
}

}  // namespace

bool is_stdout(const std::string& path) { return path == "-" || path == "/dev/stdout"; }

bool is_same_file(const std::string& one, const std::string& other) {
  if (one.empty() || other.empty()) return false;
  if (is_stdout(one) || is_stdout(other)) return is_stdout(one) && is_stdout(other);
  std::error_code error;
  if (fs::is_character_file(one, error)) return false;
  if (fs::equivalent(one, other, error)) return true;
  return fs::weakly_canonical(one, error) == fs::weakly_canonical(other, error);
}

void write_text(const std::string& path, const std::string& text, std::FILE* out) {
  if (is_stdout(path)) return write_all(out, text, path == "-" ? "standard output" : path);
  if (!may_be_replaced(path)) return write_to(path, text, path, "a");
  const std::string to = real_of(path);
  const std::string aside = aside_of(to);
  check_unprotected(to, path);
  if (!takes_files_beside(to)) return write_to(to, text, path, "w");
  try {
    make_aside(aside, to, path);
    write_to(aside, text, path, "w");
  } catch (const Failure&) {
    std::remove(aside.c_str());
    throw;
  }
  if (std::rename(aside.c_str(), to.c_str()) == 0) return;
  try {
    write_to(to, text, path, "w");  // it is mounted there by itself, say
  } catch (const Failure& failure) {
    throw Failure(kFailed, fmt::format("{}; it is kept as {}", failure.what(), aside));
  }
  std::remove(aside.c_str());
}

void check_writable(const std::string& path) {
  if (path.empty() || path == "-") return;
  if (may_be_replaced(path)) {
    const std::string real = real_of(path);
    check_unprotected(real, path);
    if (!takes_files_beside(real)) return;
    const std::string aside = aside_of(real);
    write_to(aside, "", path, "w");
    std::remove(aside.c_str());
    return;
  }
  // Not opened: a pipe would wait for its reader.
  if (fs::is_directory(path)) fail(kBadCommand, "cannot open", path, EISDIR);
  if (access(path.c_str(), W_OK) != 0) fail(kBadCommand, "cannot open", path, errno);
}

}  // namespace kda::cli
