// Why a key missed: the entry that comes closest, and what differs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/entry_file.hpp"
#include "cache/key.hpp"

namespace kda::cache {

struct Difference {
  std::string field;
  std::string here, there;  // empty where the other side alone has the field
};

// Fields of one name are compared in their order.
std::vector<Difference> differences(const Fields& here, const Fields& there);

struct Nearest {
  const Stored* stored;
  std::vector<Difference> differences;
};

// Among the entries of the same kernel; of equals, the first.
std::optional<Nearest> nearest(const Key& key, std::span<const Stored> entries);

// The part in which two long values first differ, on one line: "...shards = 2}..." of each.
Difference shortened(const Difference& difference);

}  // namespace kda::cache
