#include "cli/text_file.hpp"

#include <fmt/format.h>
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
void write_to(const std::string& path, const std::string& text, const std::string& named) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) fail(kBadCommand, "cannot open", named, errno);
  try {
    write_all(file, text, named);
  } catch (...) {
    std::fclose(file);
    throw;
  }
  if (std::fclose(file) != 0) fail(kFailed, "cannot write", named, errno);
}

// A plain file, or none yet, so that another one may take its place.
bool may_be_replaced(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const bool dangling = fs::is_symlink(fs::symlink_status(path, error));
  return fs::is_regular_file(status) || (status.type() == fs::file_type::not_found && !dangling);
}

}  // namespace

void write_text(const std::string& path, const std::string& text, std::FILE* out) {
  if (path == "-") return write_all(out, text, "standard output");
  if (!may_be_replaced(path)) return write_to(path, text, path);
  std::error_code error;
  const fs::path real = fs::canonical(path, error);  // of a link, its target
  const std::string to = error ? path : real.string();
  const std::string aside = fmt::format("{}.{}.new", to, getpid());
  try {
    write_to(aside, text, path);
    if (std::rename(aside.c_str(), to.c_str()) != 0) fail(kFailed, "cannot rename to", path, errno);
  } catch (const Failure&) {
    std::remove(aside.c_str());
    throw;
  }
}

}  // namespace kda::cli
