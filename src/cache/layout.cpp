#include "cache/layout.hpp"

#include <cerrno>
#include <utility>

#include "base/file.hpp"

namespace kda::cache {
namespace {

namespace file = base::file;

std::vector<std::string> paths_in(const std::string& directory) {
  std::vector<std::string> paths;
  if (file::list(directory, paths) != 0) paths.clear();
  for (std::string& path : paths) path = file::join(directory, path);
  return paths;
}

}  // namespace

std::vector<std::string> Layout::entries() const {
  std::vector<std::string> paths;
  for (const std::string& folder : paths_in(objects())) {
    for (std::string& path : paths_in(folder)) {
      if (path.ends_with(".kdo")) paths.push_back(std::move(path));
    }
  }
  return paths;
}

std::string Layout::trouble() const {
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
  std::vector<std::string> paths = paths_in(temporary());
  for (std::string& path : paths_in(wisdom_temporary())) paths.push_back(std::move(path));
  return paths;
}
std::vector<std::string> Layout::set_aside() const { return paths_in(bad()); }

}  // namespace kda::cache
