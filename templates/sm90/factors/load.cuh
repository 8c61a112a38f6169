// A chunk's raw q and k on their way to a group's shared memory, and all of it to the L2.
#pragma once

#include "base/tensor.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/flag.cuh"
#include "ptx/l2_policy.cuh"
#include "sm90/factors/group.cuh"
#include "sm90/factors/tile.cuh"

namespace kda {

// 16 bytes of q, k or g.  Where chains run beside, and read factors from the L2, these give them
// room: they are read once, or by the value heads of a group at about the same time.
KDA_DEVICE void load_unit(u32 to, const void* from) {
  if constexpr (tune.flags != 0) {
    ptx::cp_async_16(to, from, ptx::createpolicy_evict_first());
  } else {
    ptx::cp_async_16(to, from);
  }
}

// Rows of q or k to an image in 16-byte units, or element by element where the tensor's layout asks
// for it; missing rows as zeros.
KDA_DEVICE void load_rows(int thread, u32 to, const abi::Tensor& tensor, i64 offset, int rows) {
  constexpr int row_units = keys / 8;
  constexpr int rows_at_once = Group::threads / row_units;
  const auto at = [&](int row, int column) {
    return to + Factor::at(static_cast<u32>(row), static_cast<u32>(column));
  };
  if (is_vectored<type>(tensor, keys)) {
    const int column = thread % row_units * 8;
    const int row0 = thread / row_units;
    const char* from =
        static_cast<const char*>(tensor.data) + (offset + row0 * tensor.token + column) * 2;
    const i64 stride = tensor.token * (rows_at_once * 2);
    static_assert(rows_at_once % 8 == 0, "their swizzle is the same");
    u32 place = at(row0, column);
    if (rows == chunk) {
#pragma unroll
      for (int i = 0; i < chunk / rows_at_once; ++i) {
        load_unit(place, from);
        from += stride;
        place += rows_at_once * Factor::row_bytes;
      }
      return;
    }
#pragma unroll 1
    for (int row = row0; row < chunk; row += rows_at_once) {
      const bool there = row < rows;
      ptx::cp_async_16_or_zero(place, there ? from : tensor.data, there);
      from += stride;
      place += rows_at_once * Factor::row_bytes;
    }
    return;
  }
  const auto* from = static_cast<const u16*>(tensor.data) + offset;
#pragma unroll 1
  for (int i = thread; i < chunk * keys; i += Group::threads) {
    const int row = i / keys;
    const int column = i % keys;
    ptx::st_shared_u16(at(row, column), row < rows ? from[row * tensor.token + column] : u16(0));
  }
}

// Starts the copies of k and q to a group's buffer.
KDA_DEVICE void load_keys(int thread, u32 buffer, const abi::Inputs& in, const Tile& tile) {
  load_rows(thread, buffer + image.kd, in.k, tile.k_origin(in), tile.rows);
  load_rows(thread, buffer + image.qd, in.q, tile.q_origin(in), tile.rows);
}

// Starts the copies of a warp's part of g to where it will make D of it.
template <class AnyTile>
KDA_DEVICE void load_gate(int thread, AnyGateScratch& scratch, const abi::Inputs& in,
                          const AnyTile& tile) {
  const Line line{thread};
  if (!line.exists()) return;
  using Word = storage<shape.gate_type>;
  constexpr int unit = 16 / sizeof(Word);
  constexpr int row_units = 64 / unit;
  constexpr int rows_at_once = 32 / row_units;
  const int lane = thread % 32;
  const int half = line.half();
  const int token0 = half * half_tokens;
  const i64 origin = tile.g_origin(in) + token0 * in.g.token + line.first_channel();
  const auto* data = static_cast<const Word*>(in.g.data);
  if (is_vectored<shape.gate_type>(in.g, keys)) {
    const int column = lane % row_units * unit;
    const int row0 = lane / row_units;
    const Word* from = data + origin + row0 * in.g.token + column;
    u32 to = ptx::shared_address(RawGate::at(scratch, half, line.first_channel() + column)) +
             row0 * slab * sizeof(Word);
    if (tile.rows == chunk) {
#pragma unroll
      for (int i = 0; i < half_tokens / rows_at_once; ++i) {
        load_unit(to, from);
        from += rows_at_once * in.g.token;
        to += rows_at_once * slab * sizeof(Word);
      }
      return;
    }
#pragma unroll 1
    for (int row = token0 + row0; row < token0 + half_tokens; row += rows_at_once) {
      const bool there = row < tile.rows;
      ptx::cp_async_16_or_zero(to, there ? from : data, there);
      from += rows_at_once * in.g.token;
      to += rows_at_once * slab * sizeof(Word);
    }
    return;
  }
#pragma unroll 1
  for (int i = lane; i < half_tokens * 64; i += 32) {
    const int row = i / 64;
    const int column = i % 64;
    RawGate::at(scratch, half, line.first_channel() + column)[row * slab] =
        token0 + row < tile.rows ? data[origin + row * in.g.token + column] : Word(0);
  }
}

// Brings a tile's rows into the L2 shortly before they are loaded; a warp, a row a lane.
template <abi::DType element_type>
KDA_DEVICE void prefetch_row(const abi::Tensor& tensor, i64 offset, int row) {
  constexpr int size = abi::bytes_of(element_type);
  const char* at = static_cast<const char*>(tensor.data) + (offset + row * tensor.token) * size;
#pragma unroll
  for (int line = 0; line < keys * size; line += 128) ptx::prefetch(at + line);
}

template <class AnyTile>
KDA_DEVICE void prefetch_tile(const abi::Inputs& in, const AnyTile& tile) {
  const int row = static_cast<int>(threadIdx.x) % 32;
  if (row >= tile.rows) return;
  prefetch_row<shape.gate_type>(in.g, tile.g_origin(in), row);
  prefetch_row<type>(in.k, tile.k_origin(in), row);
  prefetch_row<type>(in.q, tile.q_origin(in), row);
}

}  // namespace kda
