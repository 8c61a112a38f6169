#include "cache/survey.hpp"

#include <cerrno>
#include <utility>

#include "base/file.hpp"
#include "cache/layout.hpp"

namespace kda::cache {
namespace {

namespace file = base::file;

std::string read(const Layout& at, Filed& filed) {
  std::string contents;
  file::Info info;
  if (const int error = file::read(filed.path, kMaxFileBytes, contents, &info)) {
    filed.unreadable = error != ELOOP && error != EINVAL && error != EFBIG;  // those are no files
    return file::describe(error);
  }
  filed.bytes = info.bytes;
  filed.used = info.changed;
  std::string trouble = decode(contents, filed.stored);
  std::string().swap(filed.stored.entry.cubin);
  if (trouble.empty() && filed.path != at.entry(filed.stored.digest())) {
    trouble = "it lies under another key's name";
  }
  return trouble;
}

}  // namespace

std::vector<Filed> survey(const std::string& root) {
  const Layout at(root);
  std::vector<Filed> all;
  for (const std::string& path : at.entries()) {
    Filed filed;
    filed.path = path;
    filed.trouble = read(at, filed);
    file::Info info;
    const bool is_gone = !filed.trouble.empty() && file::info(path, info, true) == ENOENT;
    if (!is_gone) all.push_back(std::move(filed));  // since it was listed, by who makes room
  }
  return all;
}

}  // namespace kda::cache
