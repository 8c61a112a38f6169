#include "base/trust.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "base/env.hpp"
#include "base/file.hpp"

namespace kda::base {
namespace {

bool is_ours(unsigned user) { return user == ::geteuid() || user == 0; }
bool trusts_all() { return env::flag("KDA_CACHE_TRUST_SHARED", false); }

}  // namespace

bool trusts_owner(unsigned user) { return is_ours(user) || trusts_all(); }
bool trusts_others() { return trusts_all(); }

std::string distrust(const std::string& directory, const char* path) {
  if (directory.empty() || trusts_all()) return {};
  const std::string remedy = fmt::format(
      "name it in {} to read it only, or set KDA_CACHE_TRUST_SHARED=1 to trust all who can write "
      "it",
      path);
  file::Info info;
  if (file::info(directory, info, true) != 0) return {};  // not there: nothing to believe
  if (!is_ours(info.owner)) {
    return fmt::format("{} belongs to user {}, not to {} or root; {}", directory, info.owner,
                       ::geteuid(), remedy);
  }
  if (info.link && file::info(directory, info) != 0) return {};
  if (!is_ours(info.owner)) {
    return fmt::format("{} leads to a directory of user {}, not of {} or root; {}", directory,
                       info.owner, ::geteuid(), remedy);
  }
  if (info.directory && info.others_write) {
    return fmt::format("{} may be written by others; chmod go-w it, {}", directory, remedy);
  }
  return {};
}

}  // namespace kda::base
