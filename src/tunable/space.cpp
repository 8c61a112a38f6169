#include "tunable/space.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.hpp"

namespace kda::tunable {

namespace {

std::string names_of(const Space& space) {
  std::string names;
  for (const Row& row : space) names += (names.empty() ? "" : ", ") + row.name;
  return names;
}

Status refuse(std::string message) {
  return Status(Code::invalid_argument, "tuning: " + std::move(message));
}

}  // namespace

std::string to_text(const Values& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
  return text;
}

Result<Values> parse(std::string_view text, const Space& space, Values tuning) {
  const Result<std::vector<base::Setting>> settings = base::parse_settings(text);
  if (!settings) return settings.status();
  for (const base::Setting& setting : *settings) {
    const auto& name = setting.name;
    const auto& given = setting.value;
    const auto row = std::find_if(space.begin(), space.end(),
                                  [&](const Row& each) { return each.name == name; });
    const auto target = std::find_if(tuning.begin(), tuning.end(),
                                     [&](const auto& each) { return each.first == name; });
    if (row == space.end() || target == tuning.end()) {
      return refuse(fmt::format("there is no tunable '{}'; there are {}", name, names_of(space)));
    }
    const std::optional<std::int64_t> value = base::parse_integer(given);
    if (!value) return refuse(fmt::format("{} = '{}' is not an integer", name, given));
    if (std::find(row->values.begin(), row->values.end(), *value) == row->values.end()) {
      return refuse(
          fmt::format("{} = {} is not one of {}", name, *value, fmt::join(row->values, ", ")));
    }
    target->second = static_cast<int>(*value);
  }
  return tuning;
}

std::vector<Values> enumerate(const Space& space) {
  std::vector<Values> all{{}};
  for (const Row& row : space) {
    std::vector<Values> longer;
    longer.reserve(all.size() * row.values.size());
    for (const Values& values : all) {
      for (const int value : row.values) {
        longer.push_back(values);
        longer.back().emplace_back(row.name, value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace kda::tunable
