#include "cache/key.hpp"

#include "base/digest.hpp"
#include "cache/fields.hpp"

namespace kda::cache {

void Key::add(std::string name, std::string value) {
  append_field(text_, name, value);
  fields_.emplace_back(std::move(name), std::move(value));
}

std::string Key::digest() const { return base::digest(text_); }

}  // namespace kda::cache
