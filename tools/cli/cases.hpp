// The named cases as rows, with what others need for them.
#pragma once

#include <span>

#include "cli/rows.hpp"

namespace kda::cli {

Json case_rows();
std::span<const Column> case_columns();

}  // namespace kda::cli
