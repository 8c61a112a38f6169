// States of a pool as the copy engine takes them from shared memory: 16 V columns of a head's
// [V, K] at once, which is what a warp holds, in lines of 128 bytes.
#pragma once

#include "abi/shape.h"
#include "abi/tensor_map.h"

namespace kda::abi::state_box {

constexpr int rows = 16;     // V columns
constexpr int line = 128;    // bytes
constexpr int align = 1024;  // bytes, of a box in shared memory

constexpr int row_bytes(const Shape& shape) { return shape.key_dim * bytes_of(shape.state_type); }
constexpr int bytes(const Shape& shape) { return rows * row_bytes(shape); }

// Lines of a row side by side in shared memory, before those of the next row: as many as it takes
// for lanes that store at once to meet every bank, given that the engine exchanges 16-byte units by
// the line.
constexpr int beside(const Shape& shape) { return bytes_of(shape.state_type) / 2; }
// And so many times that make a row, each with all rows.
constexpr int parts(const Shape& shape) { return row_bytes(shape) / (beside(shape) * line); }

// Whether a row is of that.
constexpr bool serves(const Shape& shape) {
  return shape.state_value_first && row_bytes(shape) % (beside(shape) * line) == 0;
}

struct Pool {
  TensorMap map;         // [slots, parts, HV V, beside, line], words of 16 bits whatever the type
  bool present = false;  // whether the pool's layout can have it
};

}  // namespace kda::abi::state_box
