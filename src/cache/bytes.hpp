// Numbers as files hold them: 64 bits, little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kda::cache {

inline void append_number(std::string& text, std::uint64_t number) {
  for (int byte = 0; byte < 8; ++byte) text += static_cast<char>(number >> (8 * byte) & 0xFF);
}

// The text has 8 bytes from the offset on.
inline std::uint64_t number_at(std::string_view text, std::size_t offset) {
  std::uint64_t number = 0;
  for (std::size_t byte = 0; byte < 8; ++byte) {
    number |= std::uint64_t{static_cast<unsigned char>(text[offset + byte])} << (8 * byte);
  }
  return number;
}

}  // namespace kda::cache
