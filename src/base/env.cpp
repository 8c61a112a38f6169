#include "base/env.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>

#include "base/file.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace kda::base::env {
namespace {

constexpr std::string_view kCacheWords[] = {"off", "ro", "rw"};
constexpr std::string_view kTuneWords[] = {"off", "read"};
constexpr std::string_view kLogWords[] = {"trace", "debug", "info", "warn", "error", "off"};
constexpr Form kFlag{Form::Kind::flag};
constexpr Form kBytes{Form::Kind::bytes};
constexpr Form word(std::span<const std::string_view> words) { return {Form::Kind::word, words}; }
constexpr Form number(std::int64_t low, std::int64_t high) {
  return {Form::Kind::number, {}, low, high};
}

constexpr Variable variables[] = {
    {"KDA_CACHE_DIR", "directory of the compiled kernels",
     "$XDG_CACHE_HOME/kda, else ~/.cache/kda"},
    {"KDA_CACHE",
     "off: memory and linked bundles only, without KDA_CACHE_PATH; ro: read the directory; rw: "
     "write it too",
     "rw", word(kCacheWords)},
    {"KDA_CACHE_PATH", "more directories and bundles to read kernels from, separated by colons",
     "none"},
    {"KDA_CACHE_MAX_SIZE", "bytes that the directory may hold: 500M, 2G", "1G", kBytes},
    {"KDA_CACHE_TRUST_SHARED",
     "1: use directories that others own or may write; what is made in one is for all it is for",
     "0", kFlag},
    {"KDA_LOCK_TIMEOUT", "seconds to wait for another process that compiles the same kernel", "30",
     number(0, 86400)},
    {"KDA_STRICT_TOOLCHAIN", "1: take from bundles only what this machine's NVRTC would make", "0",
     kFlag},
    {"KDA_JIT", "off: never compile; a kernel that no cache or bundle holds is an error", "on",
     kFlag},
    {"KDA_WISDOM_DIR", "directory of the measurements", "wisdom, in the directory of the kernels"},
    {"KDA_WISDOM_PATH", "more such directories, read only, separated by colons", "none"},
    {"KDA_TUNE", "off: plans know nothing of measurements; read: they use them", "read",
     word(kTuneWords)},
    {"KDA_NVRTC_PATH", "libnvrtc to use: the library or its directory; no other is tried",
     "the loaded one, CUDA_HOME, CUDA_PATH, the loader's, /usr/local/cuda*, Python's"},
    {"KDA_LIBCUDA_PATH", "libcuda to use; no other is tried", "libcuda.so.1"},
    {"KDA_JIT_THREADS", "kernels compiled at once, 1..1024", "as many as cores", number(1, 1024)},
    {"KDA_KEEP_GRAPHS", "0: plans of several kernels launch them one by one, never as a kept graph",
     "1", kFlag},
    {"KDA_INTRA_THREADS", "kda_prefill_f32 only: threads a block of the stage inside the chunks",
     "the planner's", number(1, 1024)},
    {"KDA_INTER_THREADS", "the same of the stage across them", "the planner's", number(1, 1024)},
    {"KDA_INTER_SHARDS", "the same: blocks that share one head's V, which it must divide",
     "the planner's", number(1, 1024)},
    {"KDA_LOG",
     "messages to stderr: trace, debug, info, warn (that a cache cannot be written, say), error or "
     "off",
     "off; of kda-tune and kda-bench warn", word(kLogWords)},
    {"CUDA_HOME", "a CUDA toolkit to find libnvrtc in", "unset"},
    {"CUDA_PATH", "the same, after CUDA_HOME", "unset"},
    {"VIRTUAL_ENV", "a Python environment whose nvidia packages may hold libnvrtc", "unset"},
    {"CONDA_PREFIX", "the same, conda's", "unset"},
    {"NVRTC_APPEND_FLAGS", "NVRTC's own: flags added to every compile, kept apart in the cache",
     "unset"},
    {"LD_LIBRARY_PATH", "the loader's; a change makes the library look for libnvrtc again",
     "unset"},
    {"XDG_CACHE_HOME", "parent of the default cache directory", "~/.cache"},
    {"HOME", "parent of ~/.cache", "the user's entry in the password database"},
};

const Variable* find_row(std::string_view name) {
  const auto row = std::find_if(std::begin(variables), std::end(variables),
                                [&](const Variable& each) { return name == each.name; });
  return row == std::end(variables) ? nullptr : row;
}

std::optional<std::size_t> position_in(const Form& form, const std::string& value) {
  const auto at = std::find(form.words.begin(), form.words.end(), lower(value));
  if (at == form.words.end()) return std::nullopt;
  return static_cast<std::size_t>(at - form.words.begin());
}

std::optional<std::int64_t> number_in(const Form& form, const std::string& value) {
  const std::optional<std::int64_t> number = parse_integer(value);
  return number && *number >= form.low && *number <= form.high ? number : std::nullopt;
}

// What is wrong with a value; empty: nothing.
std::string fault_of(const Variable& row, const std::string& value) {
  const Form& form = row.form;
  std::string fault;
  switch (form.kind) {
    case Form::Kind::text:
      break;
    case Form::Kind::flag:
      if (!parse_switch(value)) fault = "is neither 1 nor 0";
      break;
    case Form::Kind::word:
      if (!position_in(form, value)) {
        fault = fmt::format("is none of {}", fmt::join(form.words, ", "));
      }
      break;
    case Form::Kind::number:
      if (!number_in(form, value)) {
        fault = fmt::format("is not a whole number from {} to {}", form.low, form.high);
      }
      break;
    case Form::Kind::bytes:
      if (!parse_bytes(value)) fault = "is no size such as 500M or 2G";
      break;
  }
  if (fault.empty()) return fault;
  return fmt::format("{}={} {}", row.name, quote(value), fault);
}

struct Told {
  ForkMutex mutex{ForkRank::told};
  std::set<std::string> texts;
};

void complain(const std::string& text) {
  static constinit Lazy<Told> of_process;
  Told& told = of_process.get();
  {
    const std::lock_guard lock(told.mutex);
    if (!told.texts.insert(text).second) return;
  }
  log::warn(text);
}

// As `parse` reads it; the fallback when it is unset, or in another form than the table's.
template <class T, class Parse>
T read(const char* name, Form::Kind kind, T fallback, const Parse& parse) {
  const Variable* row = find_row(name);
  assert(row != nullptr && row->form.kind == kind);
  (void)kind;
  const std::string value(trim(get(name)));
  if (value.empty()) return fallback;
  if (const auto parsed = parse(row->form, value)) return *parsed;
  complain(fmt::format("{}; using the default: {}", fault_of(*row, value), row->fallback));
  return fallback;
}

std::string home() {
  std::string directory = get("HOME");
  if (!directory.empty()) return directory;
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr && found->pw_dir != nullptr) {
    directory = found->pw_dir;
  }
  return directory;
}

}  // namespace

std::span<const Variable> table() { return variables; }

std::string get(const char* name) {
  assert(find_row(name) != nullptr);
  const char* value = secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string snapshot() {
  std::string text;
  for (const Variable& row : variables) {
    if (const char* value = secure_getenv(row.name)) text += value;
    text += '\0';
  }
  return text;
}

std::span<const std::string_view> words_of(const char* name) { return find_row(name)->form.words; }

std::size_t choice(const char* name, std::size_t fallback) {
  return read(name, Form::Kind::word, fallback, position_in);
}

std::int64_t integer(const char* name, std::int64_t fallback) {
  return read(name, Form::Kind::number, fallback, number_in);
}

bool flag(const char* name, bool fallback) {
  return read(name, Form::Kind::flag, fallback,
              [](const Form&, const std::string& value) { return parse_switch(value); });
}

std::int64_t bytes(const char* name, std::int64_t fallback) {
  return read(name, Form::Kind::bytes, fallback,
              [](const Form&, const std::string& value) { return parse_bytes(value); });
}

std::vector<std::string> complaints() {
  std::vector<std::string> all;
  for (const Variable& row : variables) {
    const std::string value(trim(get(row.name)));
    if (value.empty()) continue;
    if (std::string fault = fault_of(row, value); !fault.empty()) all.push_back(std::move(fault));
  }
  return all;
}

std::vector<std::string> unknown_names() {
  constexpr std::string_view kOfPython = "KDA_LIBRARY";  // the package finds the library by it
  std::vector<std::string> all;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view entry = *each;
    const std::string name(entry.substr(0, entry.find('=')));
    if (name.starts_with("KDA_") && name != kOfPython && find_row(name) == nullptr) {
      all.push_back(name);
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::string cache_root() {
  const std::string own = get("KDA_CACHE_DIR");
  if (!own.empty()) return file::absolute(own);
  const std::string xdg = get("XDG_CACHE_HOME");
  if (xdg.starts_with('/')) return xdg + "/kda";  // the XDG rules: ignore a relative one
  const std::string parent = home();
  return parent.starts_with('/') ? parent + "/.cache/kda" : std::string();
}

CacheMode cache_mode() {
  return static_cast<CacheMode>(
      choice("KDA_CACHE", static_cast<std::size_t>(CacheMode::read_write)));
}

}  // namespace kda::base::env
