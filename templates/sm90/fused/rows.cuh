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
    thread_ = thread;
    padding_ = padding;
    const abi::Tensor& v = args_.in.v;
    const abi::Tensor& o = args_.out.o;
    vectored_ = is_vectored<type>(v, shape.value_dim) && is_vectored<type>(o, shape.value_dim);
    const i64 token = static_cast<i64>(piece.first) * chunk;
    from_ = first(v, part, token);
    to_ = first(o, part, token);
    left_ = part.sequence.length() - token;
    const i64 most = static_cast<i64>(piece.chunks) * chunk;
    if (left_ > most) left_ = most;
    load(tile_, left_);
  }

  // The chunk's place in turn.
  KDA_DEVICE int tile() const { return tile_; }
  // Until its v is there.
  KDA_DEVICE void wait() const { ptx::mbarrier_wait(pair_.brought(tile_), round_); }

  // Once o of the chunk before, if there was one, has left, the next chunk's v to its place.
  KDA_DEVICE void exchange(bool had_one) {
    if (had_one) store();
    if (left_ > chunk) load(tile_ ^ 1, left_ - chunk);
  }

  // On to the next chunk; the warp has left o in this one's place.
  KDA_DEVICE void next() {
    __syncwarp();
    if (thread_ % 32 == 0) ptx::mbarrier_arrive(pair_.left(tile_));
    left_ -= chunk;
    round_ ^= static_cast<u32>(tile_);
    tile_ ^= 1;
  }

  // Whether the chunk before had all its tokens, after next().
  KDA_DEVICE bool was_whole() const { return left_ >= 0; }
  // As begin() was told.
  KDA_DEVICE bool padding() const { return padding_; }
  // The last chunk's o, after next().
  KDA_DEVICE void end() { store(); }

 private:
  KDA_DEVICE int row() const { return thread_ / units; }
  KDA_DEVICE int unit() const { return thread_ % units; }
  KDA_DEVICE u32 place(int tile) const {
    return pair_.values(tile) + row() * Pair::value_row + (unit() ^ row() % units) * 16;
  }

  // This lane's first unit of a part's rows from a token on.
  KDA_DEVICE char* first(const abi::Tensor& tensor, const Part& part, i64 token) const {
    const int value0 =
        (part.shard * abi::fused::blocks + static_cast<int>(Pair::rank())) * abi::fused::columns;
    return static_cast<char*>(const_cast<void*>(tensor.data)) +
           (offset_of<shape.varlen>(tensor, part.n, part.sequence.begin, part.head) + value0 +
            (token + row()) * tensor.token + unit() * 8) *
               2;
  }

  // The next rows of v to a place, of which `left` exist, missing ones as zeros.
  KDA_DEVICE void load(int tile, i64 left) {
    const u32 at = place(tile);
    const i64 token = args_.in.v.token * 2;
    if (vectored_ && left >= chunk) {
#pragma unroll
      for (int i = 0; i < moves; ++i) {
        ptx::cp_async_16(at + i * rows_at_once * Pair::value_row, from_ + i * rows_at_once * token);
      }
      ptx::cp_async_arrive(pair_.brought(tile));
    } else {
#pragma unroll 1
      for (int i = 0; i < moves * 8; ++i) {
        const int move = i / 8 * rows_at_once;
        const u16 x = row() + move < left
                          ? reinterpret_cast<const u16*>(from_ + move * token)[i % 8]
                          : u16(0);
        ptx::st_shared_u16(at + move * Pair::value_row + i % 8 * 2, x);
      }
      ptx::mbarrier_arrive(pair_.brought(tile));
    }
    from_ += chunk * token;
  }

  // o of the chunk before from its place, once all warps have left theirs.
  KDA_DEVICE void store() {
    const int tile = tile_ ^ 1;
    ptx::mbarrier_wait(pair_.left(tile), round_ ^ static_cast<u32>(tile));
    const u32 at = place(tile);
    const i64 token = args_.out.o.token * 2;
    const i64 left = left_ + chunk;
    if (shape.state_pool && padding_) {
      if (shape.zero_padding) store_zeros(token, left);
    } else if (vectored_ && left >= chunk) {
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
        if (row() + move < left) reinterpret_cast<u16*>(to_ + move * token)[i % 8] = x;
      }
    }
    to_ += chunk * token;
  }

  KDA_DEVICE void store_zeros(i64 token, i64 left) const {
#pragma unroll 1
    for (int i = 0; i < moves * 8; ++i) {
      const int move = i / 8 * rows_at_once;
      if (row() + move < left) reinterpret_cast<u16*>(to_ + move * token)[i % 8] = u16(0);
    }
  }

  const Pair& pair_;
  const abi::fused::Args& args_;
  int thread_ = 0;
  const char* from_ = nullptr;  // of the rows of v that come next
  char* to_ = nullptr;          // of the rows of o that leave next
  i64 left_ = 0;                // tokens from the chunk on
  int tile_ = 0;
  u32 round_ = 0;  // how often it has been passed, by parity
  bool vectored_ = false;
  bool padding_ = false;  // of the part
};

}  // namespace kda::fused
