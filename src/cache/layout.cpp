#include "cache/layout.hpp"

#include <cerrno>
#include <utility>

#include "base/file.hpp"

namespace kda::cache {
namespace {

namespace file = base::file;

// Behind a link lies what is not the cache's.
bool is_folder(const std::string& path) {
  file::Info info;
  return file::info(path, info, /*itself=*/true) == 0 && info.directory;
}

std::vector<std::string> paths_in(const std::string& directory) {
  std::vector<std::string> paths;
  if (!is_folder(directory) || file::list(directory, paths) != 0) paths.clear();
  for (std::string& path : paths) path = file::join(directory, path);
  return paths;
}

}  // namespace

std::vector<std::string> Layout::below(const char* folder, const std::string& directory) const {
  return is_folder(root_ + folder) ? paths_in(directory) : std::vector<std::string>();
}

std::vector<std::string> Layout::entries() const {
  std::vector<std::string> paths;
  for (const std::string& folder : below("/v1", objects())) {
    for (std::string& path : paths_in(folder)) {
      if (path.ends_with(".kdo")) paths.push_back(std::move(path));
    }
  }
  return paths;
}

std::string Layout::link_trouble() const {
  for (const std::string& path : {root_ + "/v1", objects()}) {
    file::Info info;
    if (file::info(path, info, /*itself=*/true) == 0 && info.link) {
      return path + " is a link; what it leads to is left alone";
    }
  }
  return {};
}

std::string Layout::trouble() const {
  std::string link = link_trouble();
  return link.empty() ? list_trouble() : link;
}

std::string Layout::list_trouble() const {
  std::vector<std::string> folders;
  const int error = file::list(objects(), folders);
  if (error != 0) return error == ENOENT ? "" : objects() + ": " + file::describe(error);
  for (const std::string& folder : folders) {
    const std::string path = file::join(objects(), folder);
    std::vector<std::string> names;
    const int inner = file::list(path, names);
    if (inner != 0 && inner != ENOENT && inner != ENOTDIR) {
      return path + ": " + file::describe(inner);
    }
  }
  return {};
}

std::vector<std::string> Layout::temporaries() const {
  std::vector<std::string> paths = below("/v1", temporary());
  if (!is_folder(root_ + "/wisdom")) return paths;
  for (std::string& path : below("/wisdom/v1", wisdom_temporary())) {
    paths.push_back(std::move(path));
  }
  return paths;
}
std::vector<std::string> Layout::set_aside() const { return below("/v1", bad()); }

}  // namespace kda::cache
