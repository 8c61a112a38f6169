#include "cache/fields.hpp"

#include <fmt/format.h>

#include <charconv>

namespace kda::cache {
namespace {

// Takes "<length>:<bytes><end>" off the front of the text.
std::optional<std::string> take(std::string_view& text, char end) {
  std::size_t length = 0;
  const char* stop = text.data() + text.size();
  const auto [colon, error] = std::from_chars(text.data(), stop, length);
  if (error != std::errc{} || colon == stop || *colon != ':') return std::nullopt;
  if (text.front() == '0' && colon - text.data() > 1) return std::nullopt;  // one way to say each
  text.remove_prefix(static_cast<std::size_t>(colon - text.data()) + 1);
  if (length >= text.size() || text[length] != end) return std::nullopt;
  std::string bytes(text.substr(0, length));
  text.remove_prefix(length + 1);
  return bytes;
}

}  // namespace

void append_field(std::string& text, std::string_view name, std::string_view value) {
  text += fmt::format("{}:{}={}:{}\n", name.size(), name, value.size(), value);
}

std::optional<Fields> parse_fields(std::string_view text) {
  Fields fields;
  while (!text.empty()) {
    std::optional<std::string> name = take(text, '=');
    std::optional<std::string> value = name ? take(text, '\n') : std::nullopt;
    if (!value) return std::nullopt;
    fields.emplace_back(*std::move(name), *std::move(value));
  }
  return fields;
}

}  // namespace kda::cache
