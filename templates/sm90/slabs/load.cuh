// A warp's slab of a chunk's raw q, k and g on its way to memory of the warp's own.
#pragma once

#include "base/tensor.cuh"
#include "ptx/cp_async.cuh"
#include "sm90/factors/group.cuh"

namespace kda::slabs {

// Where a warp's halves of q, k or g stand.
class Halves {
 public:
  enum Which : u32 { q = 0, k = 1, g = 2 };

  KDA_DEVICE Halves(const Scratch& scratch, u32 warp)
      : memory_(ptx::shared_address(&scratch.slices[warp][0])) {}

  KDA_DEVICE u32 of(Which which, int half) const {
    return memory_ + half * sizeof(Scratch::Slice) + which * sizeof(Scratch::Slice::q);
  }

 private:
  u32 memory_;
};

// A lane's 16-byte units of a tensor's slab.
class Units {
  static constexpr int a_row = slab / 8;
  static constexpr int rows_at_once = 32 / a_row;
  static_assert(half_tokens % rows_at_once == 0 && rows_at_once % 8 == 0, "one swizzle for all");

 public:
  KDA_DEVICE Units(u32 thread, const Halves& halves, Halves::Which which, const abi::Tensor& tensor,
                   i64 origin)
      : row_(static_cast<int>(thread % 32 / a_row)) {
    const u32 column = thread % a_row * 8;
    i64 token = tensor.token;
    // No register holds it, or what follows, from chunk to chunk: in packs there is none left.
    if constexpr (shape.varlen) asm volatile("" : "+l"(token));
    stride_ = token * (rows_at_once * 2);
    from_ = static_cast<const char*>(tensor.data) +
            (origin + row_ * token + thread / 32 * slab + column) * 2;
    to_ = halves.of(which, 0) + Half::at(static_cast<u32>(row_), column);
  }

  // Starts the copies of whole chunks' rows.
  KDA_DEVICE void load() {
#pragma unroll
    for (int row = 0; row < chunk; row += rows_at_once) {
      ptx::cp_async_16(at(row), from_);
      from_ += stride_;
    }
  }
  // Of the first `rows` tokens, the others as zeros.
  KDA_DEVICE void load(int rows, const void* anywhere) {
#pragma unroll 1
    for (int row = 0; row < chunk; row += rows_at_once) {
      const bool there = row_ + row < rows;
      ptx::cp_async_16_or_zero(at(row), there ? from_ : anywhere, there);
      from_ += stride_;
    }
  }

 private:
  KDA_DEVICE u32 at(int row) const {
    return to_ + row / half_tokens * sizeof(Scratch::Slice) + row % half_tokens * Half::row_bytes;
  }

  int row_;
  i64 stride_;  // bytes
  const char* from_;
  u32 to_;
};

// The same of a tensor in whose layout 16 bytes are not to be had at once.
KDA_DEVICE void load_elements(int thread, const Halves& halves, Halves::Which which,
                              const abi::Tensor& tensor, i64 origin, int rows) {
  const u16* data = static_cast<const u16*>(tensor.data) + origin + thread / 32 * slab;
#pragma unroll 1
  for (int i = thread % 32; i < chunk * slab; i += 32) {
    const int row = i / slab;
    const int column = i % slab;
    ptx::st_shared_u16(halves.of(which, row / half_tokens) +
                           Half::at(static_cast<u32>(row % half_tokens), static_cast<u32>(column)),
                       row < rows ? data[row * tensor.token + column] : u16(0));
  }
}

// Whether q, k and g are all to be had 16 bytes at once.
KDA_DEVICE bool loads_units(const abi::Inputs& in) {
  return is_vectored<type>(in.q, keys) && is_vectored<type>(in.k, keys) &&
         is_vectored<shape.gate_type>(in.g, keys);
}

// Starts the copies of a warp's rows of a tile, missing ones as zeros.  by_units: loads_units().
template <class AnyTile>
KDA_DEVICE void load_slabs(int thread, const Scratch& scratch, const abi::Inputs& in,
                           const AnyTile& tile, bool by_units) {
  const u32 own = static_cast<u32>(thread);
  const Halves halves(scratch, own / 32);
  const i64 k = tile.k_origin(in);
  const i64 q = tile.q_origin(in);
  const i64 g = tile.g_origin(in);
  if (by_units) {
    Units of_k(own, halves, Halves::k, in.k, k);
    Units of_q(own, halves, Halves::q, in.q, q);
    Units of_g(own, halves, Halves::g, in.g, g);
    if (tile.rows == chunk) {
      of_k.load();
      of_q.load();
      of_g.load();
    } else {
      of_k.load(tile.rows, in.k.data);
      of_q.load(tile.rows, in.q.data);
      of_g.load(tile.rows, in.g.data);
    }
  } else {
    load_elements(thread, halves, Halves::k, in.k, k, tile.rows);
    load_elements(thread, halves, Halves::q, in.q, q, tile.rows);
    load_elements(thread, halves, Halves::g, in.g, g, tile.rows);
  }
}

}  // namespace kda::slabs
