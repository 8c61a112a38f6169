#include "cache/store.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/trust.hpp"
#include "cache/entry_file.hpp"
#include "cache/sweep.hpp"

namespace kda::cache {
namespace {

namespace env = base::env;
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

int write(const Layout& at, const std::string& path, const std::string& contents) {
  if (const int error = file::make_directories(at.temporary())) return error;
  file::Info ignored;
  if (file::info(at.tag(), ignored) == ENOENT) {
    (void)file::publish(at.temporary(), at.tag(), kTag);
  }
  if (const int error = file::make_directories(path.substr(0, path.find_last_of('/')))) {
    return error;
  }
  return file::publish(at.temporary(), path, contents);
}

std::string trusted(std::string root, env::CacheMode mode) {
  if (mode == env::CacheMode::off) return {};
  const std::string why = base::distrust(root);
  if (why.empty()) return root;
  log::warn(fmt::format("cache: {}; kernels are kept in memory only", why));
  return {};
}

constexpr std::size_t kNeverSwept = std::numeric_limits<std::size_t>::max() / 2;

}  // namespace

Store::Store(std::string root, bool writes, bool declared)
    : root_(std::move(root)),
      at_(root_),
      writes_(writes && !root_.empty()),
      declared_(declared),
      locks_(writes_ ? at_.locks() : std::string()),
      unswept_(kNeverSwept) {}

Store::Store(std::string root, env::CacheMode mode)
    : Store(trusted(std::move(root), mode), mode == env::CacheMode::read_write, false) {}

Store::Store(Declared, std::string root) : Store(std::move(root), false, true) {}

void Store::warn_once(std::atomic<bool>& warned, const std::string& text) {
  log::write(warned.exchange(true) ? LogLevel::debug : LogLevel::warn, text);
}

std::optional<Entry> Store::find(const Key& key) {
  if (root_.empty()) return std::nullopt;
  const std::string digest = key.digest();
  const std::string path = at_.entry(digest);
  std::string contents;
  file::Info info;
  if (const int error = file::read(path, kMaxFileBytes, contents, &info)) {
    if (is_no_entry(error)) {
      set_aside(path, digest, "it is no plain file of a sane size");
    } else if (!is_plain_miss(error)) {
      unreadable_ = error;
      warn_once(warned_read_, fmt::format("cache: cannot read {}: {}; compiling instead", path,
                                          file::describe(error)));
    }
    return std::nullopt;
  }
  Entry entry;
  std::string trouble = decode(contents, key, entry);
  if (!declared_ && !base::trusts_owner(info.owner)) trouble = "it belongs to another user";
  if (!trouble.empty()) {
    set_aside(path, digest, trouble);
    return std::nullopt;
  }
  if (writes_ && is_worn(info.changed, file::now(), kRenewSeconds)) (void)file::touch(path);
  return entry;
}

void Store::set_aside(const std::string& path, const std::string& digest, const std::string& why) {
  warn_once(warned_bad_, fmt::format("cache: {} is damaged ({}); compiling again", path, why));
  if (!writes_) return;
  const std::string bad = at_.bad() + "/" + digest + ".kdo";
  if (file::make_directories(at_.bad()) == 0) {
    const int error = file::move(path, bad);
    if (error == 0 || error == ENOENT) return;  // gone: another process has done so
    if (error == ENOTDIR || error == EISDIR || error == ENOTEMPTY || error == EEXIST) {
      std::error_code ignored;
      std::filesystem::remove_all(bad, ignored);  // a file where a directory comes, or the reverse
      if (file::move(path, bad) == 0) return;
    }
  }
  (void)file::remove(path);
}

BuildLocks::Held Store::lock(const Key& key, const std::function<bool()>& arrived) {
  return locks_.acquire(key.digest(), arrived);
}

void Store::publish(const Key& key, const Entry& entry) {
  if (!writes_) return;
  const std::string contents = encode(key, entry);
  if (const int error = write_with_room(at_.entry(key.digest()), contents)) {
    warn_once(warned_write_,
              fmt::format("cache: cannot write to {}: {}; kernels are kept in memory only", root_,
                          file::describe(error)));
  } else {
    sweep_after(contents.size());
  }
}

// On a full disk: what writers left half-written, else a fifth of what is there; once a process, as
// others may be who fill it.
int Store::write_with_room(const std::string& path, const std::string& contents) {
  int error = write(at_, path, contents);
  const auto is_full = [&] { return error == ENOSPC || error == EDQUOT; };
  if (!is_full() || made_room_.exchange(true)) return error;
  const std::int64_t all = std::numeric_limits<std::int64_t>::max();
  const Swept swept = sweep(root_, all, all);
  if (swept.leftovers > 0) error = write(at_, path, contents);
  if (is_full() && !swept.busy && swept.distrusted.empty()) {
    const auto target = static_cast<std::int64_t>(swept.kept_bytes / 5 * 4);
    if (sweep(root_, target, target).entries > 0) error = write(at_, path, contents);
  }
  return error;
}

std::string Store::trouble() const {
  if (root_.empty()) return {};
  std::string trouble = at_.list_trouble();
  const int error = unreadable_;
  if (trouble.empty() && error != 0) {
    trouble = fmt::format("{}: entries there cannot be read: {}", root_, file::describe(error));
  }
  return trouble;
}

// Every entry is looked at on the first publish of a process, and then whenever it has written a
// twentieth of what the directory may hold.
void Store::sweep_after(std::size_t bytes) {
  const std::int64_t cap = env::bytes("KDA_CACHE_MAX_SIZE", kDefaultMaxBytes);
  const std::size_t since = unswept_ += bytes;
  if (since < static_cast<std::size_t>(cap / 20)) return;
  unswept_ = 0;
  const Swept swept = sweep(root_, cap, cap / 5 * 4);
  if (!swept.distrusted.empty()) {
    warn_once(warned_sweep_, fmt::format("cache: {} is not kept within KDA_CACHE_MAX_SIZE: {}",
                                         root_, swept.distrusted));
  }
  if (swept.entries + swept.leftovers > 0) {
    log::info(fmt::format("cache: {} entries and {} leftovers of {} went; {} bytes are left",
                          swept.entries, swept.leftovers, root_, swept.kept_bytes));
  }
}

}  // namespace kda::cache
