// A search as the page's script reads it.
#pragma once

#include "cli/rows.hpp"
#include "tune/journal.hpp"

namespace kda::tune_tool {

// {"name", "device", "date", "method", "winner", "fallback", "decision", "strategies": {name:
// [tunables]}, "roof": {...}, "rows": [{...}]}
cli::Json plot_data(const tune::JournalContents& journal);

}  // namespace kda::tune_tool
