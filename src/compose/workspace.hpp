// Named slices of the caller's workspace to offsets: the only workspace arithmetic.
#pragma once

#include <cstddef>

namespace kda::compose {

class Workspace {
 public:
  static constexpr std::size_t kAlignment = 256;

  // The offset of a new slice, aligned to 256 bytes.
  std::size_t take(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace kda::compose
