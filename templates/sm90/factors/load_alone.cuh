// A block's only chunk on its way to shared memory: raw q, k and g where Qd, Kd and Ak will stand,
// and beta.
#pragma once

#include "base/tensor.cuh"
#include "ptx/cp_async.cuh"
#include "sm90/factors/group.cuh"
#include "sm90/factors/tile.cuh"

namespace kda::alone {

// Rows of K elements to shared memory in 16-byte units, or element by element where the tensor's
// layout asks for it; missing rows as zeros.  swizzled: as a Factor image, else row after row.
template <abi::DType element_type, bool swizzled>
KDA_DEVICE void load_rows(int thread, u32 to, const abi::Tensor& tensor, i64 offset, int rows) {
  constexpr int size = abi::bytes_of(element_type);
  constexpr int row_units = keys * size / 16;
  constexpr int rows_at_once = Group::threads / row_units;
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
  for (int i = thread; i < chunk * keys; i += Group::threads) {
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

KDA_DEVICE void load_beta(int thread, float (&to)[chunk], const abi::Inputs& in, const Tile& tile) {
  if (thread >= chunk) return;
  const i64 at = tile.origin(in.beta, tile.head) + thread * in.beta.token;
  to[thread] = thread < tile.rows
                   ? step::write_strength<shape>(load<shape.beta_type>(in.beta.data, at))
                   : 0.0F;
}

}  // namespace kda::alone
