#include "cli/rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

namespace kda::cli {
namespace {

using Cells = std::vector<std::string>;

constexpr std::array<const char*, 5> kFormats = {"table", "json", "jsonl", "csv", "md"};

const Json* find(const Json& row, std::string_view key) {
  const Json* at = &row;
  while (!key.empty()) {
    const std::size_t dot = std::min(key.find('.'), key.size());
    const auto next = at->is_object() ? at->find(std::string(key.substr(0, dot))) : at->end();
    if (next == at->end()) return nullptr;
    at = &*next;
    key.remove_prefix(std::min(dot + 1, key.size()));
  }
  return at;
}

// Tables show the beginning of a compiler's log; the other formats carry all of it.
std::string first_line(const std::string& text) {
  const std::size_t end = text.find('\n');
  return end == std::string::npos ? text : text.substr(0, end) + " ...";
}

std::string cell(const Json* value, int decimals) {
  if (value == nullptr || value->is_null()) return "-";
  if (value->is_string()) return first_line(value->get<std::string>());
  if (value->is_boolean()) return value->get<bool>() ? "yes" : "no";
  if (value->is_number_float()) {
    const double number = value->get<double>();
    if (!std::isfinite(number)) return fmt::format("{}", number);
    if (number != 0 && std::abs(number) < std::pow(10.0, -decimals)) {
      return fmt::format("{:.1e}", number);
    }
    return fmt::format("{:.{}f}", number, decimals);
  }
  if (value->is_array()) {
    std::string text;
    for (const Json& item : *value) text += (text.empty() ? "" : " ") + cell(&item, decimals);
    return text;
  }
  return value->dump();
}

// Characters, not bytes: the tables hold words such as "10 µs".
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

bool is_number(const Json& rows, const char* key) {
  bool number = false;
  for (const Json& row : rows) {
    const Json* value = find(row, key);
    if (value == nullptr || value->is_null()) continue;
    if (!value->is_number()) return false;
    number = true;
  }
  return number;
}

bool has_values(const Json& rows, const char* key) {
  return std::any_of(rows.begin(), rows.end(), [&](const Json& row) {
    const Json* value = find(row, key);
    return value != nullptr && !value->is_null();
  });
}

std::string line(const Cells& cells, const std::vector<std::size_t>& widths,
                 const std::vector<bool>& right, const char* between) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string pad(widths[i] - width_of(cells[i]), ' ');
    if (i > 0) text += between;
    text += right[i] ? pad + cells[i] : cells[i] + pad;
  }
  return text;
}

std::string without_trailing_blanks(const std::string& text) {
  std::string kept;
  for (const char c : text) {
    if (c == '\n') kept.resize(kept.find_last_not_of(' ') + 1);
    kept += c;
  }
  return kept;
}

// A bar would end the cell.
std::string without_bars(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

std::string table(const Json& rows, std::span<const Column> columns, bool markdown) {
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  std::vector<Cells> lines(rows.size());
  Cells titles;
  for (const Column& column : columns) {
    if (!rows.empty() && !has_values(rows, column.key)) continue;
    titles.emplace_back(column.title);
    right.push_back(is_number(rows, column.key));
    std::size_t width = std::max<std::size_t>(width_of(titles.back()), markdown ? 3 : 0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      lines[i].push_back(cell(find(rows[i], column.key), column.decimals));
      if (markdown) lines[i].back() = without_bars(lines[i].back());
      width = std::max(width, width_of(lines[i].back()));
    }
    widths.push_back(width);
  }
  const std::string edge = markdown ? "| " : "";
  const std::string end = markdown ? " |\n" : "\n";
  const char* between = markdown ? " | " : "  ";
  std::string text = edge + line(titles, widths, right, between) + end;
  if (markdown) {
    Cells rule;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      rule.push_back(std::string(widths[i] - 1, '-') + (right[i] ? ":" : "-"));
    }
    text += edge + line(rule, widths, right, between) + end;
  }
  for (const Cells& cells : lines) text += edge + line(cells, widths, right, between) + end;
  return markdown ? text : without_trailing_blanks(text);
}

void flatten(const Json& value, const std::string& name, Json& out) {
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      flatten(item, name.empty() ? key : name + "." + key, out);
    }
  } else {
    out[name] = value;
  }
}

std::string csv_cell(const Json* value) {
  if (value == nullptr || value->is_null()) return "";
  std::string text = value->is_string() ? value->get<std::string>() : value->dump();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv(const Json& rows) {
  if (rows.empty()) return {};
  Cells names;  // in the order first seen
  std::vector<Json> flat;
  for (const Json& row : rows) {
    Json& values = flat.emplace_back(Json::object());
    flatten(row, "", values);
    for (const auto& [name, value] : values.items()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::string text = fmt::format("{}\n", fmt::join(names, ","));
  for (const Json& values : flat) {
    Cells cells;
    for (const std::string& name : names) {
      const auto at = values.find(name);
      cells.push_back(csv_cell(at == values.end() ? nullptr : &*at));
    }
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

std::string json(const Json& rows, bool array) {
  std::string text;
  for (const Json& row : rows) {
    if (array && !text.empty()) text += ",";
    if (array || !text.empty()) text += "\n";
    text += row.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  if (array) return "[" + text + "\n]\n";
  return text.empty() ? text : text + "\n";
}

}  // namespace

Result<Format> parse_format(std::string_view name) {
  const auto at = std::find(kFormats.begin(), kFormats.end(), name);
  if (at == kFormats.end()) {
    return Status(Code::invalid_argument,
                  fmt::format("format is \"{}\"; known are {}", name, fmt::join(kFormats, ", ")));
  }
  return static_cast<Format>(at - kFormats.begin());
}

std::string render(const Json& rows, std::span<const Column> columns, Format format) {
  switch (format) {
    case Format::json:
      return json(rows, true);
    case Format::jsonl:
      return json(rows, false);
    case Format::csv:
      return csv(rows);
    case Format::md:
      return table(rows, columns, true);
    case Format::table:
      break;
  }
  return table(rows, columns, false);
}

}  // namespace kda::cli
