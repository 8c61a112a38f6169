// A chunk's raw q, k, g and beta on their way to a group's shared memory.
#pragma once

#include "base/tensor.cuh"
#include "base/varlen.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/flag.cuh"
#include "sm90/factors/group.cuh"

namespace kda {

// A chunk of one value head.
struct Tile {
  i64 begin = 0;  // its sequence's first token in the pack
  i64 first = 0;  // its first token, within the sequence
  i64 slot = 0;
  int n = 0;
  int head = 0;
  int rows = 0;  // tokens that exist; 0: no such chunk

  KDA_DEVICE i64 origin(const abi::Tensor& tensor, int h) const {
    return offset_of<shape.varlen>(tensor, n, begin, h) + first * tensor.token;
  }
  KDA_DEVICE int qk_head() const { return head / shape.group; }
};

// Rows of K elements to shared memory in 16-byte units, or element by element where the tensor's
// layout asks for it; missing rows as zeros.  swizzled: as a Factor image, else row after row.
template <abi::DType element_type, bool swizzled>
KDA_DEVICE void load_rows(int thread, u32 to, const abi::Tensor& tensor, i64 offset, int rows) {
  constexpr int size = abi::bytes_of(element_type);
  constexpr int row_units = keys * size / 16;
  constexpr int rows_at_once = abi::factors::threads / row_units;
  const auto at = [&](int row, int column) {
    return to + (swizzled ? Factor::at(static_cast<u32>(row), static_cast<u32>(column))
                          : static_cast<u32>((row * keys + column) * size));
  };
  if (is_vectored<element_type>(tensor, keys)) {
    const int column = thread % row_units * (16 / size);
    const int row0 = thread / row_units;
    const char* from =
        static_cast<const char*>(tensor.data) + (offset + row0 * tensor.token + column) * size;
    const i64 stride = tensor.token * (rows_at_once * size);
#pragma unroll
    for (int i = 0; i < chunk / rows_at_once; ++i) {
      const int row = row0 + i * rows_at_once;
      const bool there = row < rows;
      ptx::cp_async_16_or_zero(at(row, column), there ? from : tensor.data, there);
      from += stride;
    }
    return;
  }
  using Word = storage<element_type>;
  const auto* from = static_cast<const Word*>(tensor.data) + offset;
#pragma unroll 1
  for (int i = thread; i < chunk * keys; i += abi::factors::threads) {
    const int row = i / keys;
    const int column = i % keys;
    const Word x = row < rows ? from[row * tensor.token + column] : Word(0);
    if constexpr (size == 4) {
      ptx::st_shared_f32(at(row, column), x);
    } else {
      ptx::st_shared_u16(at(row, column), x);
    }
  }
}

// Start the copies to a group's buffer.
KDA_DEVICE void load_gate(int thread, u32 buffer, const abi::Inputs& in, const Tile& tile) {
  load_rows<shape.gate_type, false>(thread, buffer + image.ak, in.g, tile.origin(in.g, tile.head),
                                    tile.rows);
}
KDA_DEVICE void load_keys(int thread, u32 buffer, const abi::Inputs& in, const Tile& tile) {
  load_rows<type, true>(thread, buffer + image.kd, in.k, tile.origin(in.k, tile.qk_head()),
                        tile.rows);
  load_rows<type, true>(thread, buffer + image.qd, in.q, tile.origin(in.q, tile.qk_head()),
                        tile.rows);
}

// Brings a tile's rows into the L2 while the one before is worked on: a chunk takes long enough
// for that, and no shared memory is left for a second buffer.
template <abi::DType element_type>
KDA_DEVICE void prefetch_rows(int thread, const abi::Tensor& tensor, i64 offset, int rows) {
  constexpr int line = 128;
  constexpr int size = abi::bytes_of(element_type);
  constexpr int row_lines = keys * size / line;
#pragma unroll
  for (int i = 0; i < chunk * row_lines; i += abi::factors::threads) {
    const int row = (i + thread) / row_lines;
    if (row >= rows) return;
    ptx::prefetch(static_cast<const char*>(tensor.data) + (offset + row * tensor.token) * size +
                  (i + thread) % row_lines * line);
  }
}

KDA_DEVICE void prefetch_tile(int thread, const abi::Inputs& in, const Tile& tile) {
  prefetch_rows<shape.gate_type>(thread, in.g, tile.origin(in.g, tile.head), tile.rows);
  prefetch_rows<type>(thread, in.k, tile.origin(in.k, tile.qk_head()), tile.rows);
  prefetch_rows<type>(thread, in.q, tile.origin(in.q, tile.qk_head()), tile.rows);
  if (thread < tile.rows) {
    ptx::prefetch(static_cast<const char*>(in.beta.data) +
                  (tile.origin(in.beta, tile.head) + thread * in.beta.token) *
                      abi::bytes_of(shape.beta_type));
  }
}

KDA_DEVICE void load_beta(int thread, float (&to)[chunk], const abi::Inputs& in, const Tile& tile) {
  if (thread >= chunk) return;
  const i64 at = tile.origin(in.beta, tile.head) + thread * in.beta.token;
  to[thread] = thread < tile.rows
                   ? step::write_strength<shape>(load<shape.beta_type>(in.beta.data, at))
                   : 0.0F;
}

}  // namespace kda
