#include "cli/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"

namespace kda::cli {
namespace {

constexpr std::size_t kMostTexts = 10000;

// The values of "16..64:16"; none where it is no range.  A long one is cut just past kMostTexts.
std::optional<std::vector<std::string>> range(std::string_view item) {
  const std::size_t dots = item.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  std::string_view rest = item.substr(dots + 2);
  const std::size_t sign = rest.find_first_of(":*");
  const auto first = base::parse_integer(item.substr(0, dots));
  const auto last = base::parse_integer(rest.substr(0, sign));
  std::optional<std::int64_t> by = 1;
  if (sign != std::string_view::npos) by = base::parse_integer(rest.substr(sign + 1));
  const bool times = sign != std::string_view::npos && rest[sign] == '*';
  if (!first || !last || !by || *first > *last) return std::nullopt;
  if (times ? *by < 2 || *first < 1 : *by < 1) return std::nullopt;

  std::vector<std::string> values;
  for (std::int64_t value = *first; values.size() <= kMostTexts;) {
    values.push_back(std::to_string(value));
    if (times ? value > *last / *by : value > *last - *by) break;
    value = times ? value * *by : value + *by;
  }
  return values;
}

std::vector<std::string> values_of(std::string_view list) {
  std::vector<std::string> values;
  for (const std::string_view item : base::split(list, ',')) {
    if (const auto several = range(item)) {
      values.insert(values.end(), several->begin(), several->end());
    } else {
      values.emplace_back(item);
    }
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
      choices = values_of(word.substr(equals + 1));
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
