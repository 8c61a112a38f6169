// The lengths of a chunk's rows of q and k, of which each warp has a share of the channels.
#pragma once

#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "sm90/factors/scratch.cuh"
#include "sm90/factors/sizes.cuh"
#include "sm90/factors/units.cuh"
#include "tile/operand.cuh"

namespace kda {

// A warp's share of half the tokens': the diagonals of k k^T and q q^T.  place(ks): of this lane's
// row of a k step of raw k; q is k_to_q further, modulo 2^32.
template <class Place>
KDA_DEVICE void sum_squares(Squares& squares, const tile::Lane& lane, int warp, int half,
                            const Place& place, u32 k_to_q) {
  float low[2][4] = {};
  float high[2][4] = {};
#pragma unroll
  for (int ks = 0; ks < k_steps; ++ks) {
    const u32 at = place(ks);
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      u32 a[4];
      ptx::ldmatrix_x4(a, at + which * k_to_q);
      const u32 b0[2] = {a[0], a[2]};
      const u32 b1[2] = {a[1], a[3]};
      if constexpr (type == abi::DType::bf16) {
        ptx::mma_m16n8k16_bf16(low[which], a, b0);
        ptx::mma_m16n8k16_bf16(high[which], a, b1);
      } else {
        ptx::mma_m16n8k16_f16(low[which], a, b0);
        ptx::mma_m16n8k16_f16(high[which], a, b1);
      }
    }
  }
  if (lane.t == lane.g / 2) {
    const int token = half * half_tokens + lane.g;
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      squares[token][which][warp] = lane.g % 2 == 0 ? low[which][0] : low[which][1];
      squares[token + 8][which][warp] = lane.g % 2 == 0 ? high[which][2] : high[which][3];
    }
  }
}

// Once all warps have given their share.
KDA_DEVICE float total(const float (&shares)[warps]) {
  if constexpr (warps == 4) {
    const float4 x = *reinterpret_cast<const float4*>(shares);
    return (x.x + x.y) + (x.z + x.w);
  } else {
    float sum = 0.0F;
#pragma unroll
    for (int w = 0; w < warps; w += 2) {
      const float2 x = *reinterpret_cast<const float2*>(shares + w);
      sum += x.x + x.y;
    }
    return sum;
  }
}
KDA_DEVICE float key_unit(const Squares& squares, int token, float scale) {
  return key_unit(total(squares[token][0]), total(squares[token][1]), scale);
}
KDA_DEVICE float query_unit(const Squares& squares, int token, float scale) {
  return query_unit(total(squares[token][1]), scale);
}

}  // namespace kda
