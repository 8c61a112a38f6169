// What people may read and nothing depends on: where it cannot be written (a closed stderr, a full
// disk), the work goes on.
#pragma once

#include <cstdio>
#include <string_view>

namespace kda::cli {

inline void tell(std::FILE* to, std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), to);
}

}  // namespace kda::cli
