// kda-tune cache: path, stats, ls, show, verify, gc, clear.
#include "cache/cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"
#include "cache/bundle.hpp"
#include "cache/layout.hpp"
#include "cache/survey.hpp"
#include "cache/sweep.hpp"
#include "cli/failure.hpp"
#include "tune/commands.hpp"
#include "tune/configuration.hpp"
#include "tune/entry_row.hpp"

namespace kda::tune_tool {
namespace {

namespace env = base::env;
namespace file = base::file;
using cli::Column;
using cli::Json;

constexpr Column kFacts[] = {{"fact", "fact"}, {"value", "value"}};
constexpr Column kTargets[] = {
    {"target", "target"}, {"entries", "entries"}, {"cubin_bytes", "cubin B"}};
constexpr Column kPlaces[] = {{"place", "also read"}, {"kind", "kind"}, {"entries", "entries"}};
constexpr Column kDamaged[] = {{"path", "damaged"}, {"why", "why"}, {"removed", "removed"}};
constexpr Column kUnreadable[] = {{"path", "cannot be read"}, {"why", "why"}};
constexpr Column kFields[] = {{"field", "key field"}, {"value", "value"}};

// The directory that --cache-dir or the environment names, used or not.
std::string named_directory(const Request& request) {
  return request.cache_dir.empty() ? env::cache_root() : file::absolute(request.cache_dir);
}

std::string directory_of(const Request& request) {
  std::string directory = named_directory(request);
  if (directory.empty()) {
    throw cli::Failure(cli::kFailed, "there is no cache directory: set KDA_CACHE_DIR or HOME");
  }
  if (const std::string why = base::distrust(directory); !why.empty()) {
    throw cli::Failure(cli::kFailed, "the library does not use this cache: " + why);
  }
  if (const std::string why = cache::Layout(directory).trouble(); !why.empty()) {
    throw cli::Failure(cli::kFailed, "the cache cannot be looked into: " + why);
  }
  return directory;
}

// Where something may be taken away, too.
std::string directory_to_change(const Request& request) {
  std::string directory = directory_of(request);
  if (env::cache_mode() == env::CacheMode::read_write) return directory;
  throw cli::Failure(cli::kFailed,
                     fmt::format("nothing was removed: KDA_CACHE is {}, and {} is not written",
                                 env::get("KDA_CACHE"), directory));
}

std::vector<cache::Filed> whole_entries(const std::string& directory) {
  std::vector<cache::Filed> all = cache::survey(directory);
  std::erase_if(all, [](const cache::Filed& filed) { return !filed.trouble.empty(); });
  std::stable_sort(all.begin(), all.end(),
                   [](const cache::Filed& a, const cache::Filed& b) { return a.used > b.used; });
  return all;
}

std::int64_t limit_of(const Request& request) {
  const bool said = !request.max_size.empty();
  const std::string text = said ? request.max_size : env::get("KDA_CACHE_MAX_SIZE");
  if (text.empty()) return cache::kDefaultMaxBytes;
  // The library goes on with its default; who removes what is there must not.
  const auto bytes = base::parse_bytes(text);
  if (bytes) return *bytes;
  throw cli::Failure(cli::kBadCommand,
                     fmt::format("{} {}: a size such as 500M or 2G is wanted",
                                 said ? "--max-size" : "KDA_CACHE_MAX_SIZE", base::quote(text)));
}

// What lies under an entry's name, or was set aside, may be a directory.
bool remove(const std::string& path) {
  std::error_code error;
  return std::filesystem::remove_all(path, error) > 0 && !error;
}

std::size_t remove_all(const std::vector<std::string>& paths) {
  return static_cast<std::size_t>(std::count_if(paths.begin(), paths.end(), remove));
}

// Half-written files whose writers are surely gone: others are about to be published, measurements
// among them.
std::vector<std::string> left_over(std::vector<std::string> paths) {
  std::erase_if(paths, [now = base::file::now()](const std::string& path) {
    base::file::Info info;
    return base::file::info(path, info, true) != 0 ||
           !cache::is_worn(info.changed, now, cache::kLeftoverSeconds);
  });
  return paths;
}

}  // namespace

int cache_path(const Request& request) {
  const std::string directory = named_directory(request);
  cli::Document document(request.output);
  document.tell("path", Json::array({{{"path", directory}}}), directory);
  document.print();
  return directory.empty() ? cli::kFailed : cli::kOk;
}

int cache_stats(const Request& request) {
  const std::string directory = directory_of(request);
  const std::shared_ptr<cache::Cache> cache = cache::shared_cache(request.cache_dir);
  std::size_t bytes = 0, damaged = 0, unreadable = 0;
  std::map<std::string, std::pair<std::size_t, std::size_t>> targets;
  const std::vector<cache::Filed> all = cache::survey(directory);
  for (const cache::Filed& filed : all) {
    bytes += filed.bytes;
    if (!filed.trouble.empty()) {
      ++(filed.unreadable ? unreadable : damaged);
      continue;
    }
    auto& [entries, cubins] = targets[filed.stored.entry.target];
    ++entries;
    cubins += filed.stored.cubin_bytes;
  }
  const cache::Layout at(directory);
  Json facts = Json::array(), rows = Json::array(), places = Json::array();
  const auto fact = [&](const char* name, const Json& value) {
    facts.push_back({{"fact", name}, {"value", value}});
  };
  fact("directory", directory);
  fact("entries", all.size());
  fact("bytes", bytes);
  fact("limit in bytes", env::bytes("KDA_CACHE_MAX_SIZE", cache::kDefaultMaxBytes));
  fact("damaged", damaged);
  if (unreadable > 0) fact("that cannot be read", unreadable);
  fact("damaged and set aside", at.set_aside().size());
  fact("half-written", at.temporaries().size());
  for (const auto& [target, sums] : targets) {
    rows.push_back({{"target", target}, {"entries", sums.first}, {"cubin_bytes", sums.second}});
  }
  for (const std::string& root : cache->more_directories()) {
    const cache::Layout there(root);
    const std::string trouble = there.list_trouble();
    places.push_back({{"place", root},
                      {"kind", trouble.empty() ? "directory" : "unreadable: " + trouble},
                      {"entries", there.entries().size()}});
  }
  for (const auto& bundle : cache->bundles()) {
    places.push_back({{"place", bundle->name()}, {"kind", "bundle"}, {"entries", bundle->size()}});
  }
  cli::Document document(request.output);
  document.add("cache", facts, kFacts);
  document.add("targets", rows, kTargets);
  if (!places.empty()) document.add("also read", places, kPlaces);
  document.print();
  return cli::kOk;
}

int cache_ls(const Request& request) {
  const std::set<std::string> targets = wanted_targets(request);
  Json rows = Json::array();
  for (const cache::Filed& filed : whole_entries(directory_of(request))) {
    const bool wanted = targets.empty() || targets.contains(filed.stored.entry.target);
    if (wanted) rows.push_back(entry_row(filed.stored, filed.used));
  }
  cli::Document document(request.output);
  document.add("entries", rows, entry_columns());
  document.print();
  return cli::kOk;
}

int cache_show(const Request& request) {
  std::vector<cache::Filed> found = whole_entries(directory_of(request));
  std::erase_if(found, [&](const cache::Filed& filed) {
    return !filed.stored.digest().starts_with(request.key);
  });
  if (found.size() != 1) {
    throw cli::Failure(cli::kFailed, fmt::format("{} entries have a key that begins with {}; "
                                                 "kda-tune cache ls shows them",
                                                 found.size(), base::quote(request.key)));
  }
  Json fields = Json::array();
  for (const auto& [field, value] : found[0].stored.key) {
    fields.push_back({{"field", field}, {"value", value}});
  }
  cli::Document document(request.output);
  document.tell("file", Json::array({{{"path", found[0].path}}}), "file  " + found[0].path);
  document.add("entry", Json::array({entry_row(found[0].stored, found[0].used)}), entry_columns());
  document.add("key fields", fields, kFields);
  document.print();
  return cli::kOk;
}

int cache_verify(const Request& request) {
  const std::vector<cache::Filed> all =
      cache::survey(request.remove ? directory_to_change(request) : directory_of(request));
  Json damaged = Json::array(), unreadable = Json::array();
  for (const cache::Filed& filed : all) {
    if (filed.trouble.empty()) continue;
    if (filed.unreadable) {
      unreadable.push_back({{"path", filed.path}, {"why", filed.trouble}});
      continue;
    }
    const bool removed = request.remove && remove(filed.path);
    damaged.push_back({{"path", filed.path}, {"why", filed.trouble}, {"removed", removed}});
  }
  cli::Document document(request.output);
  const Json counts{
      {"entries", all.size()}, {"damaged", damaged.size()}, {"unreadable", unreadable.size()}};
  document.tell(
      "verified", Json::array({counts}),
      fmt::format(
          "{} entries, {} damaged{}", all.size(), damaged.size(),
          unreadable.empty() ? "" : fmt::format(", {} that cannot be read", unreadable.size())));
  document.add("damaged", damaged, kDamaged);
  if (!unreadable.empty()) document.add("unreadable", unreadable, kUnreadable);
  document.print();
  return damaged.empty() && unreadable.empty() ? cli::kOk : cli::kFailed;
}

int cache_gc(const Request& request) {
  const std::string directory = directory_to_change(request);
  const std::int64_t limit = limit_of(request);
  file::Info info;
  const bool exists = file::info(directory, info) == 0;  // else it is not made for this
  const cache::Swept swept =                             // however young
      exists ? cache::sweep(directory, limit, limit, -1) : cache::Swept{};
  if (swept.busy) throw cli::Failure(cli::kFailed, "another process is at it; try again");
  if (!swept.distrusted.empty()) {
    throw cli::Failure(cli::kFailed, "nothing was removed: " + swept.distrusted);
  }
  const Json row{{"entries_removed", swept.entries},
                 {"bytes_removed", swept.bytes},
                 {"leftovers_removed", swept.leftovers},
                 {"bytes_kept", swept.kept_bytes},
                 {"limit", limit}};
  constexpr Column columns[] = {{"entries_removed", "entries gone"},
                                {"bytes_removed", "bytes gone"},
                                {"leftovers_removed", "leftovers gone"},
                                {"bytes_kept", "bytes kept"},
                                {"limit", "limit"}};
  cli::Document document(request.output);
  document.add("gc", Json::array({row}), columns);
  document.print();
  return swept.kept_bytes <= static_cast<std::size_t>(limit) ? cli::kOk : cli::kFailed;
}

int cache_clear(const Request& request) {
  const std::string directory = directory_to_change(request);
  const cache::Layout at(directory);
  const Json row{
      {"directory", directory},
      {"entries_removed", remove_all(at.entries())},
      {"leftovers_removed", remove_all(left_over(at.temporaries())) + remove_all(at.set_aside())},
      {"entries_kept", at.entries().size()},
      {"leftovers_kept", left_over(at.temporaries()).size() + at.set_aside().size()}};
  constexpr Column columns[] = {{"directory", "directory"},
                                {"entries_removed", "entries gone"},
                                {"leftovers_removed", "leftovers gone"},
                                {"entries_kept", "entries left"},
                                {"leftovers_kept", "leftovers left"}};
  cli::Document document(request.output);
  document.add("clear", Json::array({row}), columns);
  document.print();
  return row["entries_kept"] == 0 && row["leftovers_kept"] == 0 ? cli::kOk : cli::kFailed;
}

}  // namespace kda::tune_tool
