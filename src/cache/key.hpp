// What makes two builds the same: content, never paths, times or machines.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kda::cache {

class Key {
 public:
  void add(std::string name, std::string value);

  // Canonical: each field length-prefixed, in the order added.  Two keys are equal iff their texts
  // are.
  const std::string& text() const noexcept { return text_; }
  // 32 hex digits over text().
  std::string digest() const;
  const std::vector<std::pair<std::string, std::string>>& fields() const noexcept {
    return fields_;
  }

 private:
  std::string text_;
  std::vector<std::pair<std::string, std::string>> fields_;
};

}  // namespace kda::cache
