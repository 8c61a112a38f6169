// Rows of v and o of the block's 64 V columns, by the warps that walk: v comes to shared memory a
// chunk ahead, and o leaves from where v lay a chunk later.  Rows of 128 bytes, their 16-byte units
// exchanged by the row, so that transposed reads of a column of units meet every bank.
#pragma once

#include "base/tensor.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/shared_words.cuh"
#include "sm90/fused/pair.cuh"
#include "sm90/fused/stream.cuh"

namespace kda::fused {

class Rows {
  static constexpr int units = Pair::value_row / 16;
  static constexpr int rows_at_once = 128 / units;
  static constexpr int moves = chunk / rows_at_once;  // a lane
  static_assert(rows_at_once % units == 0, "their units are exchanged alike");

 public:
  KDA_DEVICE Rows(const Pair& pair, const abi::fused::Args& args) : pair_(pair), args_(args) {}

  // thread: of the warpgroup.
  // padding: of a sequence of which nothing is to be written, but perhaps zeros.
  KDA_DEVICE void begin(const Part& part, const Piece& piece, int thread, bool padding) {
    const u32 own = static_cast<u32>(thread);
    const int row = static_cast<int>(own / units);
    place_ = pair_.values(0) + row * Pair::value_row + (own % units ^ own / units % units) * 16;
    leads_ = own % 32 == 0;
    padding_ = shape.state_pool && padding;
    const abi::Tensor& v = args_.in.v;
    const abi::Tensor& o = args_.out.o;
    vectored_ = is_vectored<type>(v, shape.value_dim) && is_vectored<type>(o, shape.value_dim);
    const i64 token = static_cast<i64>(piece.first) * chunk;
    from_ = first(v, part, token + row, own % units);
    to_ = first(o, part, token + row, own % units);
    chunks_ = piece.chunks;
    const i64 left = part.sequence.length() - token - static_cast<i64>(chunks_ - 1) * chunk;
    rest_ = left < chunk ? static_cast<int>(left) : chunk;
    load(tile_, chunks_ > 1 ? chunk : rest_);
  }

  // The chunk's place in turn.
  KDA_DEVICE u32 tile() const { return tile_; }
  // Until its v is there.
  KDA_DEVICE void wait() const { ptx::mbarrier_wait(pair_.brought(tile_), round_); }

  // Once all warps have left o of the chunk before, from its place to memory.
  KDA_DEVICE void store_last() { store(chunk); }
  // Then the next chunk's v there, if there is one.
  KDA_DEVICE void load_next() {
    if (chunks_ > 1) load(tile_ ^ 1, chunks_ > 2 ? chunk : rest_);
  }

  // On to the next chunk; the warp has left o in this one's place.
  KDA_DEVICE void next() {
    __syncwarp();
    if (leads_) ptx::mbarrier_arrive(pair_.left(tile_));
    --chunks_;
    round_ ^= tile_;
    tile_ ^= 1;
  }

  // Whether the chunk before had all its tokens, after next().
  KDA_DEVICE bool was_whole() const { return chunks_ > 0 || rest_ == chunk; }
  // As begin() was told.
  KDA_DEVICE bool padding() const { return padding_; }
  // The last chunk's o, after next().
  KDA_DEVICE void end() { store(rest_); }

 private:
  KDA_DEVICE u32 place(u32 tile) const { return place_ + tile * Pair::values_bytes; }

  KDA_DEVICE int row() const {
    return static_cast<int>((place_ - pair_.values(0)) / Pair::value_row);
  }

  // This lane's unit of a part's row of a token.
  KDA_DEVICE char* first(const abi::Tensor& tensor, const Part& part, i64 token, u32 unit) const {
    const int value0 =
        (part.shard * abi::fused::blocks + static_cast<int>(Pair::rank())) * abi::fused::columns;
    return static_cast<char*>(const_cast<void*>(tensor.data)) +
           (offset_of<shape.varlen>(tensor, part.n, part.sequence.begin, part.head) + value0 +
            token * tensor.token + unit * 8) *
               2;
  }

  // The next rows of v to a place, of which `rows` exist, missing ones as zeros.
  KDA_DEVICE void load(u32 tile, int rows) {
    const u32 at = place(tile);
    const i64 token = args_.in.v.token * 2;
    if (vectored_ && rows == chunk) {
#pragma unroll
      for (int i = 0; i < moves; ++i) {
        ptx::cp_async_16(at + i * rows_at_once * Pair::value_row, from_ + i * rows_at_once * token);
      }
      ptx::cp_async_arrive(pair_.brought(tile));
    } else {
#pragma unroll 1
      for (int i = 0; i < moves * 8; ++i) {
        const int move = i / 8 * rows_at_once;
        const u16 x = row() + move < rows
                          ? reinterpret_cast<const u16*>(from_ + move * token)[i % 8]
                          : u16(0);
        ptx::st_shared_u16(at + move * Pair::value_row + i % 8 * 2, x);
      }
      ptx::mbarrier_arrive(pair_.brought(tile));
    }
    from_ += chunk * token;
  }

  // o of the chunk before from its place, once all warps have left theirs; of `rows` tokens.
  KDA_DEVICE void store(int rows) {
    const u32 tile = tile_ ^ 1;
    ptx::mbarrier_wait(pair_.left(tile), round_ ^ tile);
    const u32 at = place(tile);
    const i64 token = args_.out.o.token * 2;
    if (padding_) {
      if (shape.zero_padding) store_zeros(token, rows);
    } else if (vectored_ && rows == chunk) {
      float4 x[moves];
#pragma unroll
      for (int i = 0; i < moves; ++i) {
        x[i] = ptx::ld_shared_f32x4(at + i * rows_at_once * Pair::value_row);
      }
#pragma unroll
      for (int i = 0; i < moves; ++i) {
        *reinterpret_cast<float4*>(to_ + i * rows_at_once * token) = x[i];
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < moves * 8; ++i) {
        const int move = i / 8 * rows_at_once;
        const u16 x = ptx::ld_shared_u16(at + move * Pair::value_row + i % 8 * 2);
        if (row() + move < rows) reinterpret_cast<u16*>(to_ + move * token)[i % 8] = x;
      }
    }
    to_ += chunk * token;
  }

  KDA_DEVICE void store_zeros(i64 token, int rows) const {
#pragma unroll 1
    for (int i = 0; i < moves * 8; ++i) {
      const int move = i / 8 * rows_at_once;
      if (row() + move < rows) reinterpret_cast<u16*>(to_ + move * token)[i % 8] = u16(0);
    }
  }

  const Pair& pair_;
  const abi::fused::Args& args_;

  u32 place_ = 0;               // its unit in the first place
  const char* from_ = nullptr;  // of the rows of v that come next
  char* to_ = nullptr;          // of the rows of o that leave next
  int chunks_ = 0;              // of the piece, from the one at hand on
  int rest_ = 0;                // tokens of its last one
  u32 tile_ = 0;
  u32 round_ = 0;  // how often it has been passed, by parity
  bool vectored_ = false;
  bool padding_ = false;  // of the part
  bool leads_ = false;    // the first lane of its warp
};

}  // namespace kda::fused
