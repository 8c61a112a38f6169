// A strided tensor of 16-bit elements and the boxes that a kernel copies of it at once.
#pragma once

#include <array>
#include <cstdint>

namespace kda {

// Five dimensions, of which the first lies side by side: of rows they are channels of a slab,
// token, slab, head and sequence, in this order, a slab being so many channels.
struct TensorBox {
  const void* data;
  std::array<std::uint64_t, 5> sizes;
  // Bytes, of all but the first.
  std::array<std::uint64_t, 4> strides;
  // 16, 32 or 64 of the first, and so many of the others.
  std::array<std::uint32_t, 5> box;
};

}  // namespace kda
