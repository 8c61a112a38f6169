// The wisdom inside the library: src/tune/shipped/*.jsonl, embedded line by line.
#pragma once

#include <span>

namespace kda::tune {

std::span<const char* const> shipped_lines();

}  // namespace kda::tune
