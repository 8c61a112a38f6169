// Whether the library reads the places that the environment names, and what it finds there.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "cache/bundle.hpp"
#include "cache/entry_file.hpp"
#include "cache/layout.hpp"
#include "cache/survey.hpp"
#include "tune/checks.hpp"
#include "tune/roots.hpp"

namespace kda::tune_tool {
namespace {

namespace env = base::env;
namespace file = base::file;

// Whether a variable is set that the library does not read with KDA_CACHE=off.
bool passed_over(const char* variable, Checks& checks) {
  if (env::cache_mode() != env::CacheMode::off) return false;
  if (!env::get(variable).empty()) {
    checks.add(variable, "none", fmt::format("KDA_CACHE=off: {} is not read", variable));
  }
  return true;
}

void check_cache_place(const std::string& place, Checks& checks) {
  const auto add = [&](const char* state, const std::string& found) {
    checks.add("KDA_CACHE_PATH", state, found);
  };
  const auto counted = [&](const char* kind, std::size_t entries, std::size_t damaged) {
    const std::string bad =
        damaged == 0 ? "" : fmt::format(", {} of them damaged or unreadable", damaged);
    add(damaged == 0 ? "ok" : "bad",
        fmt::format("{}: a {} of {} entries{}", place, kind, entries, bad));
  };
  file::Info info;
  if (const int error = file::info(place, info)) {
    add("bad", place + ": " + file::describe(error));
  } else if (!info.directory) {
    const auto bundle = cache::Bundle::read(place);
    if (!bundle) return add("bad", bundle.status().message());
    std::size_t damaged = 0;
    for (std::size_t i = 0; i < (*bundle)->size(); ++i) {
      cache::Stored stored;
      damaged += cache::decode((*bundle)->entry(i), stored).empty() ? 0 : 1;
    }
    counted("bundle", (*bundle)->size(), damaged);
  } else if (const std::string why = cache::Layout(place).trouble(); !why.empty()) {
    add("bad", why);
  } else {
    const std::vector<cache::Filed> all = cache::survey(place);
    const auto whole = [](const cache::Filed& filed) { return filed.trouble.empty(); };
    counted("cache", all.size(),
            all.size() - static_cast<std::size_t>(std::count_if(all.begin(), all.end(), whole)));
  }
}

void check_wisdom_place(const std::string& place, Checks& checks) {
  file::Info info;
  int error = file::info(place, info);
  if (error == 0 && !info.directory) error = ENOTDIR;
  const auto faults = error == 0 ? tune::directory_faults(place) : std::vector<tune::Fault>{};
  if (error != 0) {
    checks.add("KDA_WISDOM_PATH", "bad", place + ": " + file::describe(error));
  } else if (!faults.empty()) {
    checks.add("KDA_WISDOM_PATH", "bad", faults[0].path + ": " + faults[0].why);
  } else {
    checks.add("KDA_WISDOM_PATH", "ok",
               fmt::format("{}: {} records", place, tune::record_paths(place).size()));
  }
}

// Why nothing can be kept there, or in the nearest folder above that there is; empty: it can.
std::string why_not_written(std::string directory) {
  file::Info info;
  while (directory.size() > 1 && file::info(directory, info) == ENOENT) {
    directory.resize(std::max<std::size_t>(directory.rfind('/'), 1));
  }
  return ::access(directory.c_str(), W_OK) == 0 ? "" : directory + ": " + file::describe(errno);
}

void check_wisdom_directory(Checks& checks) {
  const auto add = [&](const char* state, const std::string& found) {
    checks.add("measurements", state, found);
  };
  const auto wisdom = tune::shared_wisdom("", "");
  if (!wisdom->distrusted().empty()) {
    add("bad", "the library does not use them: " + wisdom->distrusted());
    return;
  }
  const std::string& directory = wisdom->directory();
  if (directory.empty()) {
    add("none", "in memory only, as there is no directory for them; set KDA_WISDOM_DIR or HOME");
    return;
  }
  std::vector<tune::Fault> faults = tune::verify(*wisdom);
  std::erase_if(
      faults, [](const tune::Fault& each) { return !each.damaged && !tune::is_unreadable(each); });
  const std::string unwritten = wisdom->keeps() ? why_not_written(directory) : "";
  if (!faults.empty()) {
    add("bad", fmt::format("{}: {} ({} faults; kda-tune wisdom verify shows them)", faults[0].path,
                           faults[0].why, faults.size()));
  } else if (!unwritten.empty()) {
    add("bad", "none can be kept in " + unwritten);
  } else {
    add("ok", fmt::format("{}: {} records", directory, tune::record_paths(directory).size()));
  }
}

}  // namespace

void check_cache_path(Checks& checks) {
  if (passed_over("KDA_CACHE_PATH", checks)) return;
  const std::string path = env::get("KDA_CACHE_PATH");
  for (const std::string_view word : base::split(path, ':')) {
    const std::string place(base::trim(word));
    if (!place.empty()) check_cache_place(file::absolute(place), checks);
  }
}

void check_wisdom(Checks& checks) {
  const bool off = env::cache_mode() == env::CacheMode::off;
  if (off) {
    checks.add("measurements", "none", "KDA_CACHE=off: those shipped with the library alone");
  } else {
    check_wisdom_directory(checks);
  }
  if (passed_over("KDA_WISDOM_PATH", checks)) return;
  const std::string path = env::get("KDA_WISDOM_PATH");
  for (const std::string_view word : base::split(path, ':')) {
    const std::string_view place = base::trim(word);
    if (!place.empty()) check_wisdom_place(file::absolute(std::string(place)), checks);
  }
}

}  // namespace kda::tune_tool
