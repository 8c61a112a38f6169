#include "base/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>

namespace kda::base {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

bool is_separator(char c) { return is_blank(c) || c == ','; }

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

// Reads the quoted text that starts at text[at] == '"' and leaves `at` behind its closing quote.
std::optional<std::string> unquote(std::string_view text, std::size_t& at) {
  std::string value;
  for (++at; at < text.size(); ++at) {
    if (text[at] == '"') {
      ++at;
      return value;
    }
    if (text[at] != '\\') {
      value += text[at];
      continue;
    }
    if (++at == text.size()) break;
    switch (text[at]) {
      case 'n':
        value += '\n';
        break;
      case 't':
        value += '\t';
        break;
      case 'x': {
        unsigned byte = 0;
        if (at + 2 >= text.size()) return std::nullopt;
        const char* digits = text.data() + at + 1;
        if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return std::nullopt;
        value += static_cast<char>(byte);
        at += 2;
        break;
      }
      default:
        value += text[at];
    }
  }
  return std::nullopt;
}

Status bad_settings(std::string_view text, std::string_view why) {
  return {Code::invalid_argument,
          fmt::format("{}: {}; settings read name=value name=value", quote(text), why)};
}

bool needs_quotes(std::string_view value) {
  return value.empty() || std::any_of(value.begin(), value.end(), [](char c) {
           return is_separator(c) || c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
         });
}

}  // namespace

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = at;
    while (at < text.size() && !is_blank(text[at])) ++at;
    if (at > begin) found.push_back(text.substr(begin, at - begin));
    while (at < text.size() && is_blank(text[at])) ++at;
  }
  return found;
}

std::string join(std::span<const std::string> pieces, std::string_view separator) {
  return fmt::format("{}", fmt::join(pieces.begin(), pieces.end(), separator));
}

std::string lower(std::string_view text) {
  std::string copy(text);
  for (char& c : copy) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return copy;
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return parse_whole<std::int64_t>(text);
}

std::optional<double> parse_number(std::string_view text) { return parse_whole<double>(text); }

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  text = trim(text);
  int shift = 0;
  const std::string_view units = "KMGT";
  if (!text.empty()) {
    const std::size_t unit = units.find(static_cast<char>(std::toupper(text.back())));
    if (unit != std::string_view::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  const std::optional<std::int64_t> number = parse_integer(text);
  if (!number || *number < 0 || *number > (INT64_MAX >> shift)) return std::nullopt;
  return *number << shift;
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  const char* units[] = {"kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  while (value >= 1000 && unit < 3) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::optional<bool> parse_switch(std::string_view text) {
  const std::string word = lower(text);
  if (word == "on" || word == "true" || word == "yes" || word == "1") return true;
  if (word == "off" || word == "false" || word == "no" || word == "0") return false;
  return std::nullopt;
}

Result<std::vector<Setting>> parse_settings(std::string_view text) {
  std::vector<Setting> settings;
  std::size_t at = 0;
  while (at < text.size()) {
    if (is_separator(text[at])) {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    while (at < text.size() && !is_separator(text[at]) && text[at] != '=') ++at;
    const std::string name(text.substr(begin, at - begin));
    if (at == text.size() || text[at] != '=') {
      return bad_settings(text, fmt::format("{} has no '='", quote(name)));
    }
    if (name.empty()) return bad_settings(text, "a value has no name");
    std::string value;
    if (++at < text.size() && text[at] == '"') {
      std::optional<std::string> inside = unquote(text, at);
      if (!inside) return bad_settings(text, fmt::format("the quote of {} never closes", name));
      if (at < text.size() && !is_separator(text[at])) {
        return bad_settings(text, fmt::format("text follows the closing quote of {}", name));
      }
      value = *std::move(inside);
    } else {
      const std::size_t start = at;
      while (at < text.size() && !is_separator(text[at])) ++at;
      value = text.substr(start, at - start);
    }
    if (std::any_of(settings.begin(), settings.end(),
                    [&](const Setting& other) { return other.name == name; })) {
      return bad_settings(text, fmt::format("{} is given twice", name));
    }
    settings.push_back({name, std::move(value)});
  }
  return settings;
}

std::string to_text(std::span<const Setting> settings) {
  std::string text;
  for (const Setting& setting : settings) {
    if (!text.empty()) text += ' ';
    text += setting.name;
    text += '=';
    text += needs_quotes(setting.value) ? quote(setting.value) : setting.value;
  }
  return text;
}

}  // namespace kda::base
