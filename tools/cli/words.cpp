#include "cli/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"

namespace kda::cli {
namespace {

constexpr std::size_t kMostTexts = 10000;

struct Range {
  std::int64_t first, last, by;
  bool times;
};

// "16..64:16"; none where a number is missing.
std::optional<Range> range_of(std::string_view item) {
  const std::size_t dots = item.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  std::string_view rest = item.substr(dots + 2);
  const std::size_t sign = rest.find_first_of(":*");
  const auto first = base::parse_integer(item.substr(0, dots));
  const auto last = base::parse_integer(rest.substr(0, sign));
  std::optional<std::int64_t> by = 1;
  if (sign != std::string_view::npos) by = base::parse_integer(rest.substr(sign + 1));
  if (!first || !last || !by) return std::nullopt;
  return Range{*first, *last, *by, sign != std::string_view::npos && rest[sign] == '*'};
}

// Empty: it is a range.
std::string fault_of(const Range& range) {
  if (range.first > range.last) {
    return fmt::format("begins above its end; {}..{} does not", range.last, range.first);
  }
  if (range.times && range.by < 2) {
    return fmt::format("multiplies by {}; at least 2 is wanted", range.by);
  }
  if (range.times && range.first < 1) {
    return fmt::format("multiplies from {}; at least 1 is wanted", range.first);
  }
  if (range.by < 1) return fmt::format("has steps of {}; at least 1 is wanted", range.by);
  return {};
}

// A long one is cut just past kMostTexts.
void add_values(const Range& range, std::vector<std::string>& values) {
  std::size_t count = 0;
  for (std::int64_t value = range.first; count++ <= kMostTexts;) {
    values.push_back(std::to_string(value));
    // Unsigned: what lies between two ends may be more than a signed number holds.
    const std::uint64_t left =
        static_cast<std::uint64_t>(range.last) - static_cast<std::uint64_t>(value);
    if (range.times ? value > range.last / range.by : left < static_cast<std::uint64_t>(range.by)) {
      break;
    }
    value = range.times ? value * range.by : value + range.by;
  }
}

Result<std::vector<std::string>> values_of(std::string_view list) {
  std::vector<std::string> values;
  for (const std::string_view item : base::split(list, ',')) {
    const std::optional<Range> range = range_of(item);
    if (!range) {
      values.emplace_back(item);
      continue;
    }
    if (const std::string fault = fault_of(*range); !fault.empty()) {
      return Status(Code::invalid_argument, fmt::format("the range {} {}", item, fault));
    }
    add_values(*range, values);
  }
  return values;
}

}  // namespace

Result<std::vector<std::string>> expand(std::string_view text,
                                        const std::vector<std::string>& kept) {
  std::vector<std::string> texts{""};
  for (const std::string_view word : base::words(text)) {
    const std::size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    std::vector<std::string> choices{std::string(word)};
    if (equals != std::string_view::npos &&
        std::find(kept.begin(), kept.end(), name) == kept.end()) {
      Result<std::vector<std::string>> values = values_of(word.substr(equals + 1));
      if (!values) {
        return Status(values.status().code(),
                      fmt::format("{}: {}", name, values.status().message()));
      }
      choices = *std::move(values);
      for (std::string& choice : choices) choice.insert(0, name + "=");
    }
    if (texts.size() * choices.size() > kMostTexts) {
      return Status(
          Code::invalid_argument,
          fmt::format("\"{}\" spells more than {} combinations; a range with a step, such "
                      "as 16..64:16 or 512..8192*2, spells fewer",
                      text, kMostTexts));
    }
    std::vector<std::string> longer;
    for (const std::string& start : texts) {
      for (const std::string& choice : choices) {
        longer.push_back(start.empty() ? choice : start + " " + choice);
      }
    }
    texts = std::move(longer);
  }
  return texts;
}

std::optional<std::string> take(std::string& text, std::string_view name) {
  const std::string start = std::string(name) + "=";
  std::optional<std::string> value;
  std::vector<std::string> rest;
  for (const std::string_view word : base::words(text)) {
    if (!value && word.starts_with(start)) {
      value = std::string(word.substr(start.size()));
    } else {
      rest.emplace_back(word);
    }
  }
  if (value) text = base::join(rest, " ");
  return value;
}

}  // namespace kda::cli
