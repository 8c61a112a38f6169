// A warp's slab of a chunk's raw q or k, on its way through registers: where it will stand the
// factors of the chunk before may still be read.
#pragma once

#include "base/tensor.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/streaming.cuh"
#include "sm90/factors/group.cuh"

namespace kda::fused {

class Keys {
  static constexpr int units = slab / 8;              // of 16 bytes, a row
  static constexpr int rows_at_once = 32 / units;     // a warp
  static constexpr int moves = chunk / rows_at_once;  // a lane

 public:
  // The rows of a tensor from element `origin` on.  What is asked for is always loaded and always
  // somewhere in the tensor: loads that may not take place would be kept in local memory.
  KDA_DEVICE void fetch(int thread, const abi::Tensor& tensor, i64 origin, int rows) {
    const bool vectored = is_vectored<type>(tensor, keys);
    const char* from = static_cast<const char*>(tensor.data) + (origin + column(thread)) * 2;
    i64 stride = tensor.token * 2;
    if (!vectored) {
      from = reinterpret_cast<const char*>(reinterpret_cast<u64>(tensor.data) & ~u64{15});
      stride = 0;
    }
#pragma unroll
    for (int i = 0; i < moves; ++i) {
      const int r = smaller(row(thread) + i * rows_at_once, rows - 1);
      x_[i] = ptx::ld_global_once_u32x4(from + r * stride);
    }
  }

  // To their image, missing ones as zeros; the warp waits before it reads them.
  KDA_DEVICE void put(int thread, u32 to, const abi::Tensor& tensor, i64 origin, int rows) const {
    const u32 place =
        to + Factor::at(static_cast<u32>(row(thread)), static_cast<u32>(column(thread)));
    static_assert(rows_at_once % 8 == 0, "their swizzle is the same");
#pragma unroll
    for (int i = 0; i < moves; ++i) {
      ptx::st_shared_u32x4(place + i * rows_at_once * Factor::row_bytes, x_[i]);
    }
    if (rows < chunk) {
#pragma unroll 1
      for (int r = row(thread); r < chunk; r += rows_at_once) {
        if (r < rows) continue;
        ptx::st_shared_u32x4(place + (r - row(thread)) * Factor::row_bytes, make_uint4(0, 0, 0, 0));
      }
    }
    if (is_vectored<type>(tensor, keys)) return;
    __syncwarp();
    const auto* from = static_cast<const u16*>(tensor.data) + origin;
#pragma unroll 1
    for (int i = thread % 32; i < rows * slab; i += 32) {
      const int r = i / slab;
      const int c = thread / 32 * slab + i % slab;
      ptx::st_shared_u16(to + Factor::at(static_cast<u32>(r), static_cast<u32>(c)),
                         from[r * tensor.token + c]);
    }
  }

 private:
  static KDA_DEVICE int column(int thread) { return thread / 32 * slab + thread % units * 8; }
  // Of eight lanes those that share a unit are four rows apart: they meet every bank.
  static KDA_DEVICE int row(int thread) {
    const int l = thread % 32 / units;
    return units == 4 ? l / 2 + l % 2 * 4 : l;
  }

  uint4 x_[moves];
};

}  // namespace kda::fused
