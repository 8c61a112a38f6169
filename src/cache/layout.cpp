#include "cache/layout.hpp"

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

std::vector<std::string> Layout::temporaries() const { return paths_in(temporary()); }
std::vector<std::string> Layout::set_aside() const { return paths_in(bad()); }

}  // namespace kda::cache
