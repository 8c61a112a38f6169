// "name=value name=value": the dialect of problems, tunings and wisdom.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kda/status.hpp"

namespace kda::base {

std::string_view trim(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);
// At blanks; never an empty word.
std::vector<std::string_view> words(std::string_view text);
std::string join(std::span<const std::string> pieces, std::string_view separator);
std::string lower(std::string_view text);
// In double quotes, with anything unprintable escaped.
std::string quote(std::string_view text);

// The whole text or nothing.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);
// on/off, true/false, yes/no, 1/0
std::optional<bool> parse_switch(std::string_view text);

// Bytes: "1048576", "64K", "500M", "2G", in powers of 1024; never negative.
std::optional<std::int64_t> parse_bytes(std::string_view text);
// "3.2 MB", in powers of 1000, for people.
std::string bytes_text(std::uint64_t bytes);

struct Setting {
  std::string name, value;
};

// Fails with invalid_argument: a name without '=', a value without a name, one name twice.
Result<std::vector<Setting>> parse_settings(std::string_view text);
std::string to_text(std::span<const Setting> settings);

}  // namespace kda::base
