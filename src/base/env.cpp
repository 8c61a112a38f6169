#include "base/env.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdlib>
#include <mutex>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace kda::base::env {
namespace {

constexpr Variable variables[] = {
    {"KDA_CACHE_DIR", "directory of the compiled kernels",
     "$XDG_CACHE_HOME/kda, else ~/.cache/kda"},
    {"KDA_CACHE", "off: memory only; ro: read the directory; rw: write it too", "rw"},
    {"KDA_CACHE_PATH", "more directories and bundles to read kernels from, separated by colons",
     "none"},
    {"KDA_CACHE_MAX_SIZE", "bytes that the directory may hold: 500M, 2G", "1G"},
    {"KDA_CACHE_TRUST_SHARED", "1: use a cache directory that others own or may write", "0"},
    {"KDA_LOCK_TIMEOUT", "seconds to wait for another process that compiles the same kernel", "30"},
    {"KDA_STRICT_TOOLCHAIN", "1: take from bundles only what this machine's NVRTC would make", "0"},
    {"KDA_JIT", "off: never compile; a kernel that no cache or bundle holds is an error", "on"},
    {"KDA_WISDOM_DIR", "directory of the measurements", "wisdom, in the directory of the kernels"},
    {"KDA_WISDOM_PATH", "more such directories, read only, separated by colons", "none"},
    {"KDA_TUNE", "off: plans know nothing of measurements; read: they use them", "read"},
    {"KDA_NVRTC_PATH", "libnvrtc to use: the library or its directory; no other is tried",
     "the loaded one, CUDA_HOME, CUDA_PATH, the loader's, /usr/local/cuda*, Python's"},
    {"KDA_LIBCUDA_PATH", "libcuda to use; no other is tried", "libcuda.so.1"},
    {"KDA_JIT_THREADS", "kernels compiled at once, 1..1024", "as many as cores"},
    {"KDA_KEEP_GRAPHS", "0: plans of several kernels launch them one by one, never as a kept graph",
     "1"},
    {"KDA_INTRA_THREADS", "kda_prefill_f32 only: threads a block of the stage inside the chunks",
     "the planner's"},
    {"KDA_INTER_THREADS", "the same of the stage across them", "the planner's"},
    {"KDA_INTER_SHARDS", "the same: blocks that share one head's V, which it must divide",
     "the planner's"},
    {"KDA_LOG", "messages to stderr: trace, debug, info, warn, error or off", "off"},
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

std::mutex complaints_mutex;
std::vector<std::string>& complaints_list() {
  static auto* list = new std::vector<std::string>;  // leaked: usable during exit
  return *list;
}

void complain(const std::string& text) {
  {
    const std::lock_guard lock(complaints_mutex);
    std::vector<std::string>& list = complaints_list();
    if (std::find(list.begin(), list.end(), text) != list.end()) return;
    list.push_back(text);
  }
  log::warn(text);
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
  assert(std::any_of(std::begin(variables), std::end(variables),
                     [&](const Variable& row) { return std::string_view(row.name) == name; }));
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

std::size_t choice(const char* name, std::span<const std::string_view> words,
                   std::size_t fallback) {
  const std::string value = lower(trim(get(name)));
  if (value.empty()) return fallback;
  const auto at = std::find(words.begin(), words.end(), value);
  if (at != words.end()) return static_cast<std::size_t>(at - words.begin());
  complain(fmt::format("{}={} is none of {}; using {}", name, quote(value), fmt::join(words, ", "),
                       words[fallback]));
  return fallback;
}

std::int64_t integer(const char* name, std::int64_t low, std::int64_t high, std::int64_t fallback) {
  const std::string value(trim(get(name)));
  if (value.empty()) return fallback;
  const std::optional<std::int64_t> number = parse_integer(value);
  if (number && *number >= low && *number <= high) return *number;
  complain(fmt::format("{}={} is not a whole number from {} to {}; using the default", name,
                       quote(value), low, high));
  return fallback;
}

bool flag(const char* name, bool fallback) {
  const std::string value(trim(get(name)));
  if (value.empty()) return fallback;
  const std::optional<bool> given = parse_switch(value);
  if (given) return *given;
  complain(fmt::format("{}={} is neither 1 nor 0; using {}", name, quote(value), fallback ? 1 : 0));
  return fallback;
}

std::int64_t bytes(const char* name, std::int64_t fallback) {
  const std::string value(trim(get(name)));
  if (value.empty()) return fallback;
  const std::optional<std::int64_t> number = parse_bytes(value);
  if (number) return *number;
  complain(
      fmt::format("{}={} is no size such as 500M or 2G; using the default", name, quote(value)));
  return fallback;
}

std::vector<std::string> complaints() {
  const std::lock_guard lock(complaints_mutex);
  return complaints_list();
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
  constexpr std::string_view words[] = {"off", "ro", "rw"};
  return static_cast<CacheMode>(choice("KDA_CACHE", words, 2));
}

}  // namespace kda::base::env
