// Where the warps that hold the same V columns of different key channels add up R and O: each
// leaves its part, and when all have, takes the sum.
#pragma once

#include "ptx/barrier.cuh"
#include "sm80/chunk/recurrence_sizes.cuh"

namespace kda {

class KeyParts {
 public:
  // memory: abi::chunk::parts_bytes of the block.
  KDA_DEVICE explicit KeyParts(char* memory)
      : group_(reinterpret_cast<float4*>(memory) +
               threadIdx.x / 32 / key_warps * (2 * key_warps * part_items * 32)),
        warp_(static_cast<int>(threadIdx.x) / 32 % key_warps),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  KDA_DEVICE int warp() const { return warp_; }

  KDA_DEVICE void give(const Accumulators& r, const Accumulators& o) const {
    give(0, r);
    give(1, o);
    if constexpr (value_warps == 1) {
      __syncthreads();
    } else {
      ptx::barrier_wait(1 + threadIdx.x / 32 / key_warps, 32 * key_warps);
    }
  }

  // In the same order for all, so that all have the same R.
  KDA_DEVICE void take_r(Accumulators& r) const {
#pragma unroll
    for (int m = 0; m < tiles; ++m) {
#pragma unroll
      for (int c = 0; c < chunk_tiles; ++c) take(r[m][c], 0, m, c);
    }
  }
  KDA_DEVICE void take_o(float (&o)[4], int m, int c) const { take(o, 1, m, c); }

 private:
  static constexpr int part_items = tiles * chunk_tiles;  // tiles of a warp's part

  KDA_DEVICE float4* at(int which, int warp, int item) const {
    return group_ + ((which * key_warps + warp) * part_items + item) * 32 + lane_;
  }
  KDA_DEVICE void give(int which, const Accumulators& x) const {
#pragma unroll
    for (int i = 0; i < part_items; ++i) {
      const float(&c)[4] = x[i / chunk_tiles][i % chunk_tiles];
      *at(which, warp_, i) = make_float4(c[0], c[1], c[2], c[3]);
    }
  }
  KDA_DEVICE void take(float (&sum)[4], int which, int m, int c) const {
#pragma unroll
    for (int warp = 0; warp < key_warps; ++warp) {
      const float4 x = *at(which, warp, m * chunk_tiles + c);
      sum[0] = warp == 0 ? x.x : sum[0] + x.x;
      sum[1] = warp == 0 ? x.y : sum[1] + x.y;
      sum[2] = warp == 0 ? x.z : sum[2] + x.z;
      sum[3] = warp == 0 ? x.w : sum[3] + x.w;
    }
  }

  float4* const group_;
  const int warp_;
  const int lane_;
};

}  // namespace kda
