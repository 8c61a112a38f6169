#include "cache/store.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/file.hpp"
#include "base/log.hpp"
#include "cache/entry_file.hpp"

namespace kda::cache {
namespace {

namespace file = base::file;
namespace log = base::log;

// What a shared directory answers while another machine replaces the file.
bool is_plain_miss(int error) {
  return error == ENOENT || error == ENOTDIR || error == ESTALE || error == EBUSY;
}

// Something other than an entry lies in its place.
bool is_no_entry(int error) { return error == ELOOP || error == EINVAL || error == EFBIG; }

constexpr std::string_view kTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Kernels that libkda compiled; safe to delete.  See https://bford.info/cachedir/\n";

int write(const std::string& root, const std::string& path, const std::string& contents) {
  const std::string temporary = root + "/v1/tmp";
  if (const int error = file::make_directories(temporary)) return error;
  std::string ignored;
  if (file::stamp(root + "/CACHEDIR.TAG", ignored) == ENOENT) {
    (void)file::publish(temporary, root + "/CACHEDIR.TAG", kTag);
  }
  if (const int error = file::make_directories(path.substr(0, path.find_last_of('/')))) {
    return error;
  }
  return file::publish(temporary, path, contents);
}

}  // namespace

Store::Store(std::string root, base::env::CacheMode mode)
    : root_(mode == base::env::CacheMode::off ? std::string() : std::move(root)),
      writes_(mode == base::env::CacheMode::read_write) {}

std::string Store::path_of(const std::string& digest) const {
  return fmt::format("{}/v1/objects/{}/{}.kdo", root_, digest.substr(0, 2), digest);
}

void Store::warn_once(std::atomic<bool>& warned, const std::string& text) {
  log::write(warned.exchange(true) ? LogLevel::debug : LogLevel::warn, text);
}

std::optional<Entry> Store::find(const Key& key) {
  if (root_.empty()) return std::nullopt;
  const std::string digest = key.digest();
  const std::string path = path_of(digest);
  std::string contents;
  if (const int error = file::read(path, kMaxFileBytes, contents)) {
    if (is_no_entry(error)) {
      set_aside(path, digest, "it is no plain file of a sane size");
    } else if (!is_plain_miss(error)) {
      warn_once(warned_read_, fmt::format("cache: cannot read {}: {}; compiling instead", path,
                                          file::describe(error)));
    }
    return std::nullopt;
  }
  Entry entry;
  const std::string trouble = decode(contents, key, entry);
  if (trouble.empty()) return entry;
  set_aside(path, digest, trouble);
  return std::nullopt;
}

void Store::set_aside(const std::string& path, const std::string& digest, const std::string& why) {
  warn_once(warned_bad_, fmt::format("cache: {} is damaged ({}); compiling again", path, why));
  if (!writes_) return;
  const std::string bad = root_ + "/v1/bad";
  if (file::make_directories(bad) != 0 || file::move(path, bad + "/" + digest + ".kdo") != 0) {
    (void)file::remove(path);
  }
}

void Store::publish(const Key& key, const Entry& entry) {
  if (root_.empty() || !writes_) return;
  if (const int error = write(root_, path_of(key.digest()), encode(key, entry))) {
    warn_once(warned_write_,
              fmt::format("cache: cannot write to {}: {}; kernels are kept in memory only", root_,
                          file::describe(error)));
  }
}

}  // namespace kda::cache
