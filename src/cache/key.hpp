// What makes two builds the same: content, never paths, times or machines.
#pragma once

#include <string>
#include <string_view>

#include "cache/fields.hpp"

namespace kda::cache {

// The field that says which compiler; all others say what was compiled.
constexpr std::string_view kCompilerField = "compiler";

class Key {
 public:
  void add(std::string name, std::string value);

  // Canonical: each field length-prefixed, in the order added.  Two keys are equal iff their texts
  // are.
  const std::string& text() const noexcept { return text_; }
  // 32 hex digits over text().
  std::string digest() const;
  const Fields& fields() const noexcept { return fields_; }

 private:
  std::string text_;
  Fields fields_;
};

// The digest of a key but for its compiler: what a bundle is searched by.
std::string portable_digest(const Fields& fields);

// The value of the first field of that name; null where there is none.
const std::string* value_of(const Fields& fields, std::string_view name);

}  // namespace kda::cache
