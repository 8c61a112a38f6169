// A record of wisdom as a row.
#pragma once

#include <span>

#include "cli/rows.hpp"
#include "tune/record.hpp"

namespace kda::tune_tool {

// key, device, words (the problem's), strategy, tuning, time_us, default_us, ...
cli::Json record_row(const tune::Record& record);
std::span<const cli::Column> record_columns();

}  // namespace kda::tune_tool
