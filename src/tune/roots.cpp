#include "tune/roots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <set>
#include <utility>

#include "base/digest.hpp"
#include "base/file.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "tune/match.hpp"

namespace kda::tune {

namespace {

namespace file = base::file;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr const char* kManifest = "manifest.json";

struct Told {
  base::ForkMutex mutex{base::ForkRank::told};
  std::set<std::string> paths;
};

// The same fault is not told twice.
void warn_once(const std::string& path, const std::string& why) {
  static constinit base::Lazy<Told> of_process;
  Told& told = of_process.get();
  {
    const std::lock_guard lock(told.mutex);
    if (!told.paths.insert(path).second) return;
  }
  base::log::warn(fmt::format("wisdom: {} is passed over: {}", path, why));
}

bool is_digest(const std::string& name) {
  return name.size() == 16 && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// The directories of environments there are; 0 or errno.
int environments_in(const std::string& root, std::vector<std::string>& directories) {
  const std::string top = file::join(root, "v1");
  std::vector<std::string> names;
  const int error = root.empty() ? ENOENT : file::list(top, names);
  for (const std::string& name : names) {
    if (is_digest(name)) directories.push_back(file::join(top, name));
  }
  return error;
}

// Whether the text is, whole, of the environment whose digest names the directory.
bool is_manifest_of(const std::string& directory, const std::string& text) {
  const std::string digest = directory.substr(directory.rfind('/') + 1);
  return text.ends_with('\n') && base::digest(text.substr(0, text.size() - 1)).starts_with(digest);
}

}  // namespace

std::vector<Fault> directory_faults(const std::string& root) {
  std::vector<Fault> faults;
  if (root.empty()) return faults;
  std::vector<std::string> directories;
  const std::string top = file::join(root, "v1");
  if (const int error = environments_in(root, directories); error != 0 && error != ENOENT) {
    faults.push_back({top, file::describe(error)});
  }
  for (const std::string& directory : directories) {
    std::vector<std::string> names;
    if (const int error = file::list(directory, names)) {
      faults.push_back({directory, file::describe(error)});
      continue;
    }
    const std::string manifest = file::join(directory, kManifest);
    std::string text;
    if (file::read(manifest, kMostBytes, text) == 0 && !is_manifest_of(directory, text)) {
      faults.push_back({manifest,
                        "it is not of this directory's environment; the next record that is "
                        "written there mends it"});
    }
  }
  return faults;
}

std::string why_not_listed(const std::string& root) {
  for (const Fault& fault : directory_faults(root)) {
    // Beside a manifest that is damaged all records are listed.
    if (!fault.path.ends_with(kManifest)) return fault.path + ": " + fault.why;
  }
  return {};
}

bool is_unreadable(const Fault& fault) {
  std::string text;
  return !fault.damaged && file::read(fault.path, kMostBytes, text) != 0;
}

Known known(Record record, Source source, std::string path) {
  std::string key = key_of(record.problem);
  std::string family = family_of(record.problem);
  return {std::make_shared<const Record>(std::move(record)), std::move(key), std::move(family),
          source, std::move(path)};
}

std::string path_of(const std::string& root, const std::string& environment,
                    const std::string& key) {
  return fmt::format("{}/v1/{}/{}.json", root, environment, key);
}

std::shared_ptr<const Record> read_record(const std::string& path) {
  std::string text;
  if (const int error = file::read(path, kMostBytes, text)) {
    if (error != ENOENT && error != ENOTDIR) warn_once(path, file::describe(error));
    return nullptr;
  }
  Result<Record> record = parse_record(text);
  if (!record) {
    warn_once(path, record.status().message());
    return nullptr;
  }
  return std::make_shared<const Record>(*std::move(record));
}

std::vector<std::string> record_paths(const std::string& root,
                                      const std::function<bool(const std::string&)>& wanted) {
  std::vector<std::string> paths;
  std::vector<std::string> directories;
  if (environments_in(root, directories) != 0) return paths;
  for (const std::string& directory : directories) {
    std::string manifest;
    // Without a sound manifest, the records themselves are asked.
    if (wanted && file::read(file::join(directory, kManifest), kMostBytes, manifest) == 0 &&
        is_manifest_of(directory, manifest) && !wanted(manifest)) {
      continue;
    }
    std::vector<std::string> names;
    if (file::list(directory, names) != 0) continue;
    for (const std::string& name : names) {
      if (name != kManifest && name.ends_with(".json"))
        paths.push_back(file::join(directory, name));
    }
  }
  return paths;
}

int write_record(const std::string& root, const Record& record) {
  const std::string environment = digest(record.environment);
  const std::string directory = fmt::format("{}/v1/{}", root, environment);
  const std::string temporary = file::join(root, "v1/tmp");
  if (const int error = file::make_directories(directory)) return error;
  if (const int error = file::make_directories(temporary)) return error;
  const std::string manifest = file::join(directory, kManifest);
  std::string there;
  if (file::read(manifest, kMostBytes, there) != 0 || !is_manifest_of(directory, there)) {
    (void)file::publish(temporary, manifest, to_json(record.environment) + "\n");
  }
  return file::publish(temporary, path_of(root, environment, key_digest(record.problem)),
                       to_json(record) + "\n");
}

}  // namespace kda::tune
