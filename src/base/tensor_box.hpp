// A strided tensor of 16-bit elements and the boxes that a kernel copies of it at once.
#pragma once

#include <array>
#include <cstdint>

namespace kda {

// Dimensions are channels of a slab, token, slab, head and sequence, in this order: a slab is so
// many channels side by side.
struct TensorBox {
  const void* data;
  std::array<std::uint64_t, 5> sizes;
  // Bytes from a token, slab, head and sequence to the next.
  std::array<std::uint64_t, 4> strides;
  // 16, 32 or 64 channels, and so many of the others.
  std::array<std::uint32_t, 5> box;
};

}  // namespace kda
