// A cache entry as a row.
#pragma once

#include <cstdint>
#include <span>

#include "cache/entry_file.hpp"
#include "cli/rows.hpp"

namespace kda::tune_tool {

// used: seconds since the epoch; 0 where nobody knows.
cli::Json entry_row(const cache::Stored& stored, std::int64_t used = 0);
std::span<const cli::Column> entry_columns();

}  // namespace kda::tune_tool
