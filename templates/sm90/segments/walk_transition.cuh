// Columns of the identity that a block of the walk stage walks with v = 0, and what they become: T.
#pragma once

#include "abi/segments.h"
#include "base/element.cuh"
#include "base/types.cuh"
#include "ptx/barrier.cuh"
#include "ptx/shared_words.cuh"
#include "sm90/segments/looks.cuh"
#include "sm90/segments/walk_part.cuh"
#include "tile/operand.cuh"

namespace kda {

// T below this is nothing: times a state 2^40 as large as another, it is below that one's last bit.
// Where it may grow again it is nothing when it is 0.
constexpr u32 nothing = abi::segments::never_grows(shape) ? (127U - 64U) << 23 : 1;  // 2^-64

// Whether any of the warpgroup's columns is more than nothing; NaN is.
template <int count>
KDA_DEVICE bool is_alive(const float (&s)[count][4]) {
  u32 largest = 0;
#pragma unroll
  for (int k = 0; k < count; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const u32 magnitude = __float_as_uint(s[k][e]) & 0x7fffffffU;
      largest = magnitude > largest ? magnitude : largest;
    }
  }
  return ptx::barrier_vote_any(1, 128, largest >= nothing);
}

// Whether their Frobenius norm may be `small` or more: whether one thread's share of the square is.
template <int count>
KDA_DEVICE bool is_large(const float (&s)[count][4]) {
  constexpr float most = abi::segments::small * abi::segments::small / 128;
  float sum = 0.0F;
#pragma unroll
  for (int k = 0; k < count; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sum += s[k][e] * s[k][e];
  }
  return ptx::barrier_vote_any(1, 128, !(sum < most));
}

// This warpgroup's 64 columns of T, rows of T^T, from row `row0` on, and what rounding lost of
// them.
KDA_DEVICE void store_transition(const abi::segments::Segments& segments, i64 head_slot, int row0,
                                 const Chain::State& state, bool alive) {
  using Element = element<abi::DType::bf16>;
  const tile::Lane lane;
  const i64 first = head_slot * Image::bytes;
  char* image = static_cast<char*>(segments.transition) + first;
  char* rest = static_cast<char*>(segments.transition_rest) + first;
  const int row = row0 + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane.g;
#pragma unroll
  for (int k = 0; k < keys / 8; ++k) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* pair = state.s[0][k] + 2 * half;
      const u32 rounded = alive ? Element::pack(pair[0], pair[1]) : 0;
      const float2 kept = Element::unpack(rounded);
      const u32 at = Image::at(row + half * 8, k * 8 + 2 * lane.t);
      *reinterpret_cast<u32*>(image + at) = rounded;
      *reinterpret_cast<u32*>(rest + at) =
          alive ? Element::pack(pair[0] - kept.x, pair[1] - kept.y) : 0;
    }
    asm volatile("" ::: "memory");  // else all are computed before any is stored
  }
}

// Column i of the identity in the warp's row i, counted from `column0`.
KDA_DEVICE void set_identity(Chain::State& state, int column0) {
  const tile::Lane lane;
#pragma unroll
  for (int k = 0; k < keys / 8; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int column = column0 + lane.g + e / 2 * 8;
      const int key = k * 8 + 2 * lane.t + e % 2;
      state.s[0][k][e] = key == column && key < shape.key_dim ? 1.0F : 0.0F;
    }
  }
}

// The columns of the identity, with v = 0, until nothing is left of them or they are given up.
struct Transitions {
  static constexpr bool begins_before = true;
  static constexpr bool adds = false;
  const Chain::Ring& ring;
  bool to_the_end;  // not given up before

  // Zeros, anew each time, that no register holds them from chunk to chunk.
  template <class Chain>
  KDA_DEVICE void load_values(u32 (&v)[Chain::chunk_tiles / 2][4], u32) const {
#pragma unroll
    for (auto& unit : v) unit[0] = unit[1] = unit[2] = unit[3] = 0;
  }
  KDA_DEVICE constexpr float output_scale(float scale) const {
    return Chain::type == abi::DType::f16 ? abi::segments::query_scale : scale;
  }
  KDA_DEVICE bool reads_state(int left) const {
    return left % 4 == 3 || (gives_up && is_look(left));
  }
  KDA_DEVICE bool goes_on(int left, const Chain::State& state) const {
    bool goes = left % 4 != 3 || is_alive(state.s[0]);
    if constexpr (gives_up) {
      if (goes && is_look(left) && !to_the_end) goes = is_large(state.s[0]);
    }
    if (!goes && threadIdx.x % 128 == 0) {
      ptx::st_shared_u32(stop_of(ring), static_cast<u32>(left));
    }
    // Known to be the same for a whole warp: else ptxas takes all that the loop carries for
    // different from lane to lane, and each product waits for its descriptor.
    return __shfl_sync(0xffffffffU, goes ? 1 : 0, 0) != 0;
  }
};

}  // namespace kda
