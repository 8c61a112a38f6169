#include "tune/json.hpp"

#include <fmt/format.h>

#include <cmath>

namespace kda::tune {

namespace {

const Json kNone;
const Json kNoElements = Json::array();

// Nothing that kda writes nests more than a few levels; copies and dumps recurse into each.
bool nests_deeply(std::string_view text) {
  constexpr int kMost = 32;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMost) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json parse_json(std::string_view text) {
  if (nests_deeply(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Fields::Fields(std::string_view text, std::string what)
    : json_(parse_json(text)), what_(std::move(what)) {
  if (json_.is_discarded()) {
    refuse("is no JSON");
  } else if (!json_.is_object()) {
    refuse("is no JSON object");
  }
}

Fields::Fields(const Json& object, std::string what) : json_(object), what_(std::move(what)) {
  if (!json_.is_object()) refuse("is no JSON object");
}

void Fields::refuse(const std::string& why, Code code) {
  if (!status_.ok()) return;
  status_ = Status(code, what_ + ": " + why);
}

const Json& Fields::field(const char* name) {
  if (json_.is_object()) {
    const auto found = json_.find(name);
    if (found != json_.end()) return *found;
  }
  refuse(fmt::format("{} is missing", name));
  return kNone;
}

std::string Fields::text(const char* name) {
  const Json& value = field(name);
  if (value.is_string()) return value.get<std::string>();
  refuse(fmt::format("{} is no text", name));
  return {};
}

double Fields::number(const char* name) {
  const Json& value = field(name);
  if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
  refuse(fmt::format("{} is no number", name));
  return 0;
}

std::int64_t Fields::integer(const char* name, std::int64_t low, std::int64_t high) {
  const Json& value = field(name);
  const bool fits =
      value.is_number_unsigned()
          ? value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}
          : value.is_number_integer();
  if (fits) {
    const auto number = value.get<std::int64_t>();
    if (number >= low && number <= high) return number;
  }
  refuse(fmt::format("{} is not a whole number from {} to {}", name, low, high));
  return low;
}

std::vector<std::int64_t> Fields::integers(const char* name) {
  std::vector<std::int64_t> numbers;
  for (const Json& value : array(name)) {
    if (!value.is_number_integer()) {
      refuse(fmt::format("{} holds something else than whole numbers", name));
      return {};
    }
    numbers.push_back(value.get<std::int64_t>());
  }
  return numbers;
}

const Json& Fields::object(const char* name) {
  const Json& value = field(name);
  if (!value.is_object()) refuse(fmt::format("{} is no object", name));
  return value;
}

const Json& Fields::array(const char* name) {
  const Json& value = field(name);
  if (value.is_array()) return value;
  refuse(fmt::format("{} is no array", name));
  return kNoElements;
}

}  // namespace kda::tune
