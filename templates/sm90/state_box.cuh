// A warp's 16 V columns of a state on their way through shared memory to a slot of a pool, as boxes
// of the copy engine (abi/state_box.h).  Lanes meet every bank without exchanging what they hold.
#pragma once

#include "abi/state_box.h"
#include "base/element.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/tensor_copy.cuh"

namespace kda {

template <abi::Shape shape>
struct StateBox {
  static constexpr abi::DType type = shape.state_type;
  static constexpr int rows = abi::state_box::rows;
  static constexpr int bytes = abi::state_box::bytes(shape);
  static constexpr u32 beside = abi::state_box::beside(shape);
  static constexpr u32 line = abi::state_box::line;
  static constexpr u32 part = rows * beside * line;  // bytes
  static constexpr u32 unit = 16;
  static constexpr u32 size = abi::bytes_of(type);
  static constexpr u32 tile = 8 * size;                                 // 8 channels of a row
  static constexpr int tiles = static_cast<int>(beside * line / tile);  // of a row in a part
  // Lines are counted from where the engine's exchange begins.
  static_assert(part % abi::state_box::align == 0);
  // Lines of a row are neighbours, and differ in the last bit of what units are exchanged by.
  static_assert(beside <= 2);

  u32 place;  // shared address

  // By a warp: accumulators of its rows, [channels in eights][4].
  template <int all>
  KDA_DEVICE void put(const float (&s)[all][4], u32 lane) const {
    static_assert(all * 8 == shape.key_dim);
    const u32 own = place + from_place(lane / 4, lane % 4 * (tile / 4));  // all else follows
#pragma unroll
    for (int i = 0; i < tiles; ++i) {
      const u32 at = i * tile / line;
      const u32 to = (own ^ ((i * tile % line / unit ^ at) * unit)) + at * line;
#pragma unroll
      for (int k = i; k < all; k += tiles) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const u32 offset = k / tiles * part + half * (8 * beside * line);
          const float* x = &s[k][half * 2];
          if constexpr (type == abi::DType::f32) {
            ptx::st_shared_u32x2(to + offset, __float_as_uint(x[0]), __float_as_uint(x[1]));
          } else {
            ptx::st_shared_u32(to + offset, element<type>::pack(x[0], x[1]));
          }
        }
      }
    }
  }

  // Where an element is.
  KDA_DEVICE u32 at(u32 row, u32 channel) const { return place + from_place(row, channel * size); }

  // By a thread to whom all of it is visible, in its group of bulk stores.  row: the first one, of
  // the slot's.
  KDA_DEVICE void send(const abi::state_box::Pool& pool, i64 slot, int row) const {
    ptx::tensor_store(pool.map, {0, 0, row, 0, static_cast<int>(slot)}, place);
  }

 private:
  static KDA_DEVICE u32 from_place(u32 row, u32 byte) {
    const u32 number = row * beside + byte / line % beside;  // of the line in its part
    return byte / (beside * line) * part + number * line +
           ((byte % line / unit ^ number % 8) * unit) + byte % unit;
  }
};

}  // namespace kda
