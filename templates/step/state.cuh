// The state of one value head, transposed and spread over a block's warps: a warp holds 16 * tiles
// V columns as rows of S^T [V, K] in f32 accumulators, every key channel of them or its share.  S^T
// is the A operand of both products that read it and the accumulator of the one that updates it, so
// it never leaves the registers.
#pragma once

#include "abi/shape.h"
#include "abi/tensors.h"
#include "base/element.cuh"
#include "base/types.cuh"
#include "ptx/global_pair.cuh"
#include "tile/operand.cuh"

namespace kda::step {

// keys_held: K with room, a multiple of 16; what lies past K stays zero.  Where warps share the key
// channels each holds so many, from its key0 on.
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

  // Of an element within its head's state.
  static KDA_DEVICE u32 index_of(u32 key, u32 value) {
    return shape.state_value_first ? value * shape.key_dim + key : key * shape.value_dim + value;
  }

  static constexpr i64 head_elements = static_cast<i64>(shape.key_dim) * shape.value_dim;

  using Storage = storage<shape.state_type>;

  // head counts over sequences and value heads: n * HV + h.
  KDA_DEVICE void load(const void* states, i64 head, int value0) {
    load(static_cast<const Storage*>(states) + head * head_elements, value0);
  }
  KDA_DEVICE void store(void* states, i64 head, int value0) {
    store(static_cast<Storage*>(states) + head * head_elements, value0);
  }

  // from, to: this head's; `value0` is the warp's first V column.
  KDA_DEVICE void load(const Storage* from, int value0, u32 key0 = 0) {
    clear();
    visit(from, value0, key0,
          [](float& x, const Storage* at) { x = kda::load<shape.state_type>(at, 0); });
  }
  KDA_DEVICE void store(Storage* to, int value0, u32 key0 = 0) {
    visit(to, value0, key0, [](float x, Storage* at) { kda::store<shape.state_type>(at, 0, x); });
  }

  // The same, the two channels that a thread holds side by side at once where memory has them so:
  // half of the instructions, but code for both.
  KDA_DEVICE void load_paired(const Storage* from, int value0, u32 key0 = 0) {
    if (!is_paired(from)) {
      load(from, value0, key0);
      return;
    }
    clear();
    visit_pairs(from, value0, key0, [](float* x, const Storage* at) {
      const float2 pair = load_pair<shape.state_type>(at, 0);
      x[0] = pair.x;
      x[1] = pair.y;
    });
  }
  KDA_DEVICE void store_paired(Storage* to, int value0, u32 key0 = 0) {
    if (!is_paired(to)) {
      store(to, value0, key0);
      return;
    }
    visit_pairs(to, value0, key0, [](const float* x, Storage* at) {
      if constexpr (shape.state_type == abi::DType::f32) {
        ptx::st_global_f32x2(at, x[0], x[1]);
      } else {
        store_pair<shape.state_type>(at, 0, x[0], x[1]);
      }
    });
  }

 private:
  // Calls visit(x, first) for every row of V that exists: x(k), its two registers of channels
  // 8 k + own and the next; first, the lane's own first channel's place.  All places are constants
  // away from one: a store waits for others before its address' register may change.
  template <class At, class Visit>
  KDA_DEVICE void visit_rows(At* head, int value0, u32 key0, const Visit& visit) {
    const tile::Lane lane;
    At* const own = head + index_of(own_key(key0), value0 + lane.g);
    constexpr bool all_or_none = shape.value_dim % (16 * tiles) == 0;
    if (all_or_none && value0 >= shape.value_dim) return;
#pragma unroll
    for (int row = 0; row < 2 * tiles; ++row) {
      if (all_or_none || value0 + row * 8 + lane.g < shape.value_dim) {
        visit([&](int k) { return &s[row / 2][k][row % 2 * 2]; }, own + index_of(0, row * 8));
      }
    }
  }

  // The lane's first channel.
  static KDA_DEVICE u32 own_key(u32 key0) { return key0 + 2 * tile::Lane().t; }

  // visit(register, place) for every element that exists.
  template <class At, class Visit>
  KDA_DEVICE void visit(At* head, int value0, u32 key0, const Visit& visit) {
    const u32 own = own_key(key0);
    visit_rows(head, value0, key0, [&](const auto& x, At* first) {
#pragma unroll
      for (int k = 0; k < key_tiles; ++k) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int key = k * 8 + e;
          if (key + own < shape.key_dim) visit(x(k)[e], first + index_of(key, 0));
        }
      }
    });
  }

  static KDA_DEVICE bool is_paired(const Storage* data) {
    constexpr bool beside = shape.state_value_first && shape.key_dim % 2 == 0;
    return beside && reinterpret_cast<u64>(data) % (2 * sizeof(Storage)) == 0;
  }

  // visit(first of two registers, place) for every pair of channels of a [V, K] that exists.
  template <class At, class Visit>
  KDA_DEVICE void visit_pairs(At* head, int value0, u32 key0, const Visit& visit) {
    const u32 own = own_key(key0);
    visit_rows(head, value0, key0, [&](const auto& x, At* first) {
#pragma unroll
      for (int k = 0; k < key_tiles; ++k) {
        if (k * 8 + own < shape.key_dim) visit(x(k), first + k * 8);
      }
    });
  }
};

}  // namespace kda::step
