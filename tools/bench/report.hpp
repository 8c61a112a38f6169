// Measurements to rows: everything that a reader needs to trust or repeat a number.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "bench/measurement.hpp"
#include "bench/request.hpp"
#include "cli/machine.hpp"
#include "cli/rows.hpp"

namespace kda::bench {

// What holds for every row of a run.
struct Circumstances {
  cli::Machine machine;
  double copy_bytes_per_second = 0;
  std::string command;
  std::uint64_t seed = 0;
  std::optional<double> beta;
};

cli::Json row_of(const Measurement& measurement, const Circumstances& circumstances);

// The columns of tables for people; rows carry more.
std::span<const cli::Column> columns(const Request& request);

// Writes the rows wherever the request asks: by default a table on stdout.
void print(const cli::Json& rows, std::span<const cli::Column> columns, const Request& request);

}  // namespace kda::bench
