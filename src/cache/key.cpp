#include "cache/key.hpp"

#include "base/digest.hpp"

namespace kda::cache {

void Key::add(std::string name, std::string value) {
  append_field(text_, name, value);
  fields_.emplace_back(std::move(name), std::move(value));
}

std::string Key::digest() const { return base::digest(text_); }

std::string portable_digest(const Fields& fields) {
  std::string text;
  for (const auto& [name, value] : fields) {
    if (name != kCompilerField) append_field(text, name, value);
  }
  return base::digest(text);
}

const std::string* value_of(const Fields& fields, std::string_view name) {
  for (const auto& field : fields) {
    if (field.first == name) return &field.second;
  }
  return nullptr;
}

}  // namespace kda::cache
