// Results as rows of named values, and the ways to print them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "kda/status.hpp"

namespace kda::cli {

using Json = nlohmann::ordered_json;

// One column of a table for people.  JSON and CSV carry every value of a row instead.
struct Column {
  const char* key;  // the value's name in the row; "gpu.median" reaches into an object
  const char* title;
  int decimals = 1;  // of a number that is no integer
};

enum class Format { table, json, jsonl, csv, md };

// Fails with invalid_argument, naming the known ones.
Result<Format> parse_format(std::string_view name);

// rows: an array of objects.  A value that a row lacks prints as "-" in tables, empty in CSV; a
// table leaves out a column that no row fills.
// json: one array, a row a line; csv: nested names are joined by dots, lists by blanks.
std::string render(const Json& rows, std::span<const Column> columns, Format format);

}  // namespace kda::cli
