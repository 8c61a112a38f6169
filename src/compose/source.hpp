// A stage and a family to the source NVRTC gets: the prelude and one #include.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compose/recipe.hpp"
#include "device/family.hpp"

namespace kda::compose {

struct Source {
  std::string path;  // "sm80/chunk/prepare.cu": which template serves
  std::string text;  // prelude + #include "sm80/chunk/prepare.cu"
};

// Fails with unsupported when neither folder of the family has the file.
Result<Source> source_of(const Stage& stage, const device::Family& family);

// The template and all that it includes, transitively, sorted.
std::vector<std::string_view> templates_of(std::string_view path);

// The template's text and that of all it includes, transitively, as one digest: a part of the key.
std::string templates_digest(std::string_view path);

}  // namespace kda::compose
