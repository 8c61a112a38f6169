#include "cache/nearest.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace kda::cache {
namespace {

constexpr std::size_t kLongest = 60;  // characters of a value that are shown whole
constexpr std::size_t kBefore = 24, kAfter = 32;

// By name and place among its namesakes.
std::map<std::pair<std::string, int>, std::string> numbered(const Fields& fields) {
  std::map<std::string, int> seen;
  std::map<std::pair<std::string, int>, std::string> values;
  for (const auto& [name, value] : fields) values[{name, seen[name]++}] = value;
  return values;
}

std::string around(const std::string& value, std::size_t at) {
  const std::size_t from = at > kBefore ? at - kBefore : 0;
  std::string part = value.substr(from, at - from + kAfter);
  std::replace(part.begin(), part.end(), '\n', ' ');
  return (from > 0 ? "..." : "") + part + (from + part.size() < value.size() ? "..." : "");
}

}  // namespace

std::vector<Difference> differences(const Fields& here, const Fields& there) {
  const auto ours = numbered(here), theirs = numbered(there);
  std::vector<Difference> found;
  for (const auto& [field, value] : ours) {
    const auto other = theirs.find(field);
    if (other == theirs.end()) {
      found.push_back({field.first, value, ""});
    } else if (other->second != value) {
      found.push_back({field.first, value, other->second});
    }
  }
  for (const auto& [field, value] : theirs) {
    if (!ours.contains(field)) found.push_back({field.first, "", value});
  }
  return found;
}

std::optional<Nearest> nearest(const Key& key, std::span<const Stored> entries) {
  std::optional<Nearest> best;
  const std::string* entry = value_of(key.fields(), "entry");
  for (const Stored& stored : entries) {
    if (entry != nullptr && stored.entry.entry != *entry) continue;
    std::vector<Difference> found = differences(key.fields(), stored.key);
    if (!best || found.size() < best->differences.size()) best = Nearest{&stored, std::move(found)};
  }
  return best;
}

Difference shortened(const Difference& difference) {
  const std::string &a = difference.here, &b = difference.there;
  if (std::max(a.size(), b.size()) <= kLongest && a.find('\n') == std::string::npos &&
      b.find('\n') == std::string::npos) {
    return difference;
  }
  const auto at = static_cast<std::size_t>(
      std::mismatch(a.begin(),
                    a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())),
                    b.begin())
          .first -
      a.begin());
  return {difference.field, around(a, at), around(b, at)};
}

}  // namespace kda::cache
