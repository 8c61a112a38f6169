#include "cli/limits.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/text.hpp"

namespace kda::cli {

CLI::Validator whole(std::int64_t least, std::int64_t most) {
  const auto check = [=](const std::string& text) {
    const std::optional<std::int64_t> value = base::parse_integer(text);
    if (value && *value >= least && *value <= most) return std::string();
    return fmt::format("{} is not a whole number from {} to {}", text, least, most);
  };
  return {check, fmt::format("{}..{}", least, most), "whole"};
}

CLI::Validator number(double least, double most) {
  const auto check = [=](const std::string& text) {
    const std::optional<double> value = base::parse_number(text);
    // Nothing compares with one that is not a number.
    if (value && *value >= least && *value <= most) return std::string();
    return fmt::format("{} is not a number from {} to {:.0f}", text, least, most);
  };
  return {check, fmt::format("{}..{:.0f}", least, most), "number"};
}

CLI::Validator file_name(const char* example) {
  const auto check = [=](const std::string& text) {
    return text.empty() ? fmt::format("an empty name is no file; {} is one", example)
                        : std::string();
  };
  return {check, "", "file name"};  // no words of its own in the help
}

}  // namespace kda::cli
