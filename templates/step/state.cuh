// The state of one value head, transposed and spread over a block's warps: a warp holds 16 * tiles
// V columns as rows of S^T [V, K] in f32 accumulators, every key channel of them.  S^T is the A
// operand of both products that read it and the accumulator of the one that updates it, so it never
// leaves the registers.
#pragma once

#include "abi/shape.h"
#include "abi/tensors.h"
#include "base/element.cuh"
#include "base/types.cuh"
#include "tile/operand.cuh"

namespace kda::step {

// keys_held: K with room, a multiple of 16; what lies past K stays zero.
template <abi::Shape shape, int tiles, int keys_held = round_up(shape.key_dim, 16)>
struct State {
  static constexpr int key_tiles = keys_held / 8;

  float s[tiles][key_tiles][4];

  KDA_DEVICE void clear() {
#pragma unroll
    for (int m = 0; m < tiles; ++m) {
#pragma unroll
      for (int k = 0; k < key_tiles; ++k) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[m][k][e] = 0.0F;
      }
    }
  }

  // Calls visit(register, key, value) for every element that exists; `value0` is the warp's first
  // V column.
  template <class Visit>
  KDA_DEVICE void visit(int value0, Visit&& visit) {
    const tile::Lane lane;
#pragma unroll
    for (int m = 0; m < tiles; ++m) {
#pragma unroll
      for (int k = 0; k < key_tiles; ++k) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int key = k * 8 + 2 * lane.t + e % 2;
          const int value = value0 + m * 16 + lane.g + e / 2 * 8;
          if (key < shape.key_dim && value < shape.value_dim) visit(s[m][k][e], key, value);
        }
      }
    }
  }

  static KDA_DEVICE i64 index_of(i64 head, int key, int value) {
    const i64 first = head * shape.key_dim * shape.value_dim;
    return shape.state_value_first ? first + static_cast<i64>(value) * shape.key_dim + key
                                   : first + static_cast<i64>(key) * shape.value_dim + value;
  }

  // head counts over sequences and value heads: n * HV + h.
  KDA_DEVICE void load(const void* states, i64 head, int value0) {
    clear();
    visit(value0, [&](float& x, int key, int value) {
      x = kda::load<shape.state_type>(states, index_of(head, key, value));
    });
  }

  KDA_DEVICE void store(void* states, i64 head, int value0) {
    visit(value0, [&](float& x, int key, int value) {
      kda::store<shape.state_type>(states, index_of(head, key, value), x);
    });
  }
};

}  // namespace kda::step
