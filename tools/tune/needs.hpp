// A compiled kernel as a row: where it comes from and what it needs of a multiprocessor.
#pragma once

#include <span>

#include "cache/cache.hpp"
#include "cli/rows.hpp"
#include "program/program.hpp"

namespace kda::tune_tool {

// found may be null: not compiled yet.
cli::Json kernel_row(const compose::Stage& stage, const program::Unit& unit,
                     const cache::Found* found);
std::span<const cli::Column> kernel_columns();

// What the cache holds for the unit; never compiles.
Result<cache::Found> look_up(const program::Unit& unit, cache::Cache& cache);

}  // namespace kda::tune_tool
