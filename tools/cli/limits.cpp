#include "cli/limits.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/text.hpp"

namespace kda::cli {
namespace {

CLI::Validator not_empty(const std::string& complaint, const char* name) {
  const auto check = [=](const std::string& text) {
    return text.empty() ? complaint : std::string();
  };
  return {check, "", name};  // no words of its own in the help
}

}  // namespace

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
  return not_empty(fmt::format("an empty name is no file; {} is one", example), "file name");
}

CLI::Validator directory_name() {
  return not_empty("an empty name is no directory; without the option it is the library's own",
                   "directory name");
}

CLI::Validator size_words() { return not_empty("an empty size is none; 200M is one", "size"); }

}  // namespace kda::cli
