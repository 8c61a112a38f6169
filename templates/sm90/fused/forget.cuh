// What tells whether a segment may begin from nothing (strategy by_gates).  From chunk to chunk
//   S = (diag(decay) - Ak^T Kd) S + Ak^T V
// so a state before some chunks is in the one after them times their T = diag(decay) - Ak^T Kd.  Of
// each factor's rows the largest and the sum say how large T can be:
//   sum_c' |T[c, c']| <= decay[c] + sum_m |Ak[m, c]| sum_c' |Kd[m, c']|
#pragma once

#include "ptx/ldmatrix.cuh"
#include "ptx/shared_words.cuh"
#include "sm90/factors/group.cuh"
#include "step/log_decay.cuh"

namespace kda::fused {

// Of some bf16, two a word: the sum of their absolute values, and the largest.
struct Absolute {
  float sum = 0.0F;
  float largest = 0.0F;

  KDA_DEVICE void add(u32 pair) {
    add(__uint_as_float(pair << 16 & 0x7fff0000U));
    add(__uint_as_float(pair & 0x7fff0000U));
  }
  KDA_DEVICE void add(uint4 x) {
    add(x.x);
    add(x.y);
    add(x.z);
    add(x.w);
  }

 private:
  KDA_DEVICE void add(float x) {
    sum += x;
    largest = step::at_least(x, largest);
  }
};

// The four warps' shares of a chunk's bound add up to at least that; NaN if a factor is.  The
// chunk's image is there, and a whole warp asks.
KDA_DEVICE float share_of_transition(u32 data, u32 warp, u32 lane) {
  static_assert(type == abi::DType::bf16);
  constexpr u32 lanes = 4;  // a row
  constexpr u32 units = Factor::row_bytes / 16 / lanes;
  constexpr u32 panels = Factor::bytes / Factor::panel_bytes;
  static_assert(32 / lanes * 4 == chunk);
  float left = 0.0F;  // by decay alone, of a quarter of the channels
  for (u32 c = lane; c < keys / 4; c += 32) {
    left =
        step::at_least(ptx::ld_shared_f32(data + image.decay + (warp * (keys / 4) + c) * 4), left);
  }
  const u32 row = warp * (32 / lanes) + lane / lanes;
  Absolute kd;
  Absolute ak;
#pragma unroll
  for (u32 panel = 0; panel < panels; ++panel) {
    const u32 at = data + panel * Factor::panel_bytes + row * Factor::row_bytes;
#pragma unroll
    for (u32 i = 0; i < units; ++i) {
      const u32 unit = (i * lanes + lane % lanes) * 16;
      kd.add(ptx::ld_shared_u32x4(at + image.kd + unit));
      ak.add(ptx::ld_shared_u32x4(at + image.ak + unit));
    }
  }
#pragma unroll
  for (u32 step = 1; step < lanes; step *= 2) {
    kd.sum += __shfl_xor_sync(0xffffffffU, kd.sum, step);
    ak.largest = step::at_least(__shfl_xor_sync(0xffffffffU, ak.largest, step), ak.largest);
  }
  float writes = ak.largest * kd.sum;
#pragma unroll
  for (u32 step = 1; step < 32; step *= 2) {
    left = step::at_least(__shfl_xor_sync(0xffffffffU, left, step), left);
    if (step >= lanes) writes += __shfl_xor_sync(0xffffffffU, writes, step);
  }
  return left + writes;
}

// Of this thread's part.
template <class State>
KDA_DEVICE bool is_finite(const State& state) {
  float sum = 0.0F;
#pragma unroll
  for (const auto& tile : state.s[0]) {
#pragma unroll
    for (const float x : tile) sum += x * 0.0F;
  }
  return sum == 0.0F;
}

}  // namespace kda::fused
