// Tiles in shared memory, laid out as wgmma's and TMA's swizzled operands are: panels of at most
// 128 bytes of each row, row after row, with the 16-byte units of a row exchanged (XOR by a key of
// the row), so that reading a column of units touches every bank once.  The same bytes in global
// memory are a tile's image: copying one is a copy of contiguous bytes.
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
    return (base ^ (bytes & (Tile::row_bytes - 1U))) + bytes / Tile::row_bytes * Tile::panel_bytes +
           rows * Tile::row_bytes;
  }
};

template <abi::DType type, int rows, int columns, Reads reads = Reads::along_rows>
struct Shared {
  static constexpr int element_bytes = abi::bytes_of(type);
  static constexpr int unit = 16 / element_bytes;  // elements a unit
  static constexpr int row_bytes =
      element_bytes == 2 && columns <= 16 ? 32 : (element_bytes == 2 && columns <= 32 ? 64 : 128);
  static constexpr int width = round_up(columns, row_bytes / element_bytes);  // columns with room
  static constexpr int panel_bytes = rows * row_bytes;
  static constexpr int bytes = rows * width * element_bytes;

  char* data;

  KDA_DEVICE explicit Shared(void* memory) : data(static_cast<char*>(memory)) {}

  // Byte offset of (row, column).
  static KDA_DEVICE u32 at(u32 row, u32 column) {
    u32 key;
    if constexpr (element_bytes == 2) {
      key = row / (128 / row_bytes) & (row_bytes / 16 - 1);
    } else if constexpr (reads == Reads::along_rows) {
      key = (row & 3) * 2;
    } else {
      key = ((row >> 1) & 3) * 2;
    }
    const u32 byte = column * element_bytes;
    return byte / row_bytes * panel_bytes + row * row_bytes + (byte % row_bytes ^ key * 16);
  }

  KDA_DEVICE storage<type>& operator()(u32 row, u32 column) const {
    return *reinterpret_cast<storage<type>*>(data + at(row, column));
  }
  // Columns column and column + 1, column even.
  KDA_DEVICE typename element<type>::pair& pair(u32 row, u32 column) const {
    return *reinterpret_cast<typename element<type>::pair*>(data + at(row, column));
  }
  KDA_DEVICE u32 address(u32 row, u32 column) const {
    return ptx::shared_address(data) + at(row, column);
  }
  KDA_DEVICE Place<Shared> place(u32 row, u32 column) const { return {address(row, column)}; }
};

}  // namespace kda::tile
