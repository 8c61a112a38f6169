// Named values as bytes, each with its length in front, so that no value can pass for another:
//   6:target=6:sm_90a\n
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kda::cache {

using Fields = std::vector<std::pair<std::string, std::string>>;

void append_field(std::string& text, std::string_view name, std::string_view value);

// The inverse; nullopt where the text is anything but fields.
std::optional<Fields> parse_fields(std::string_view text);

}  // namespace kda::cache
