// Row-major tiles in shared memory whose 16-byte units are exchanged within a row (XOR by a key of
// the row), so that reading a column of units touches every bank once.
#pragma once

#include "abi/dtype.h"
#include "base/element.cuh"
#include "base/types.cuh"
#include "ptx/ldmatrix.cuh"

namespace kda::tile {

// Which reads a tile of f32 is laid out for; 16-bit tiles serve both ways alike through ldmatrix.
enum class Reads { along_rows, down_columns };

// A lane's own element of a tile, from which the elements a constant way off are one XOR and one
// immediate offset away.  Valid while the lane's bits of row and column and the constants' do not
// overlap: constants are multiples of 8 (rows), and of 8 or 16 (columns).
template <class Tile>
struct Place {
  u32 base;

  KDA_DEVICE u32 at(int rows, int columns) const {
    const u32 bytes = columns * Tile::element_bytes;
    return (base ^ (bytes & 127U)) + (bytes & ~127U) + rows * Tile::pitch * Tile::element_bytes;
  }
};

template <abi::DType type, int rows, int columns, Reads reads = Reads::along_rows>
struct Shared {
  static constexpr int element_bytes = abi::bytes_of(type);
  static constexpr int unit = 16 / element_bytes;                       // elements a unit
  static constexpr int pitch = round_up(columns, 128 / element_bytes);  // elements a row
  static constexpr int bytes = rows * pitch * element_bytes;

  char* data;

  KDA_DEVICE explicit Shared(void* memory) : data(static_cast<char*>(memory)) {}

  // Byte offset of (row, column).
  static KDA_DEVICE int at(int row, int column) {
    int key;
    if constexpr (element_bytes == 2) {
      key = row & 7;
    } else if constexpr (reads == Reads::along_rows) {
      key = (row & 3) * 2;
    } else {
      key = ((row >> 1) & 3) * 2;
    }
    return (row * pitch + ((column / unit) ^ key) * unit + column % unit) * element_bytes;
  }

  KDA_DEVICE storage<type>& operator()(int row, int column) const {
    return *reinterpret_cast<storage<type>*>(data + at(row, column));
  }
  // Columns column and column + 1, column even.
  KDA_DEVICE typename element<type>::pair& pair(int row, int column) const {
    return *reinterpret_cast<typename element<type>::pair*>(data + at(row, column));
  }
  KDA_DEVICE u32 address(int row, int column) const {
    return ptx::shared_address(data) + at(row, column);
  }
  KDA_DEVICE Place<Shared> place(int row, int column) const { return {address(row, column)}; }
};

}  // namespace kda::tile
