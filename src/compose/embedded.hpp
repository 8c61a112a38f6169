// The template files, embedded by templates/CMakeLists.txt.
#pragma once

#include <span>
#include <string_view>

namespace kda::compose {

struct EmbeddedFile {
  const char* path;  // from templates/: "ptx/mma.cuh"
  const char* text;  // zero-terminated
};

std::span<const EmbeddedFile> embedded_files();
// Null when there is no such file.
const EmbeddedFile* find_embedded(std::string_view path);

}  // namespace kda::compose
