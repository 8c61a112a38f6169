// Rows of tokens on their way through a chain, by warps of their own: v to each chunk's slot, and
// o, which the consumers leave where v lay, from there.
#pragma once

#include "base/tensor.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/shared_words.cuh"
#include "sm90/chunk_wgmma/chain.cuh"

namespace kda::chunk_wgmma {

// A task's rows of v or o, chunk by chunk: the block's V columns.  16 bytes a move where the tensor
// lies so, or element by element.  Few instructions a move: with more this warp was the slowest.
template <class Chain>
class Rows {
  static constexpr int columns = Chain::columns;
  static constexpr int pitch = Chain::value_row;
  static constexpr int units = columns / 8;  // of 16 bytes, a row
  static constexpr int lanes = 32 * Chain::row_warps;
  static constexpr int rows_at_once = lanes / units;
  static constexpr int moves = Chain::chunk / rows_at_once;  // a lane

 public:
  KDA_DEVICE Rows(const abi::Tensor& tensor, const Task& task, int warp, bool vectored)
      : lane_(warp * 32 + static_cast<int>(threadIdx.x) % 32),
        token_(tensor.token * 2),
        first_(static_cast<char*>(const_cast<void*>(tensor.data)) + task.value0 * 2 +
               task.first * token_ +
               offset_of<Chain::shape.varlen>(tensor, task.n, task.sequence.begin, task.head) * 2),
        left_(task.sequence.length() - task.first),
        exist_(smaller(Chain::values - task.value0, columns)),
        vectored_(vectored) {}

  KDA_DEVICE void next() {
    first_ += Chain::chunk * token_;
    left_ -= Chain::chunk;
  }

  // Starts bringing a chunk, what does not exist as zeros; the barrier counts it once it is there.
  KDA_DEVICE void load(u32 to, u32 barrier) const {
    if (!vectored_) {
      each([&](int row, int column, bool there) {
        ptx::st_shared_u16(to + row * pitch + column * 2, there ? *at(row, column) : u16(0));
      });
      ptx::mbarrier_arrive(barrier);
      return;
    }
    const char* from = first_ + row() * token_ + column() * 2;
    to += row() * pitch + column() * 2;
    if (is_whole()) {
#pragma unroll
      for (int i = 0; i < moves; ++i) {
        ptx::cp_async_16(to + i * rows_at_once * pitch, from);
        from += rows_at_once * token_;
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < moves; ++i) {
        const bool there = exists(i);
        ptx::cp_async_16_or_zero(to + i * rows_at_once * pitch, there ? from : first_, there);
        from += rows_at_once * token_;
      }
    }
    ptx::cp_async_arrive(barrier);
  }

  // Takes a chunk away.
  KDA_DEVICE void store(u32 from) const {
    if (!vectored_) {
      each([&](int row, int column, bool there) {
        const u16 x = ptx::ld_shared_u16(from + row * pitch + column * 2);
        if (there) *at(row, column) = x;
      });
      return;
    }
    char* to = first_ + row() * token_ + column() * 2;
    from += row() * pitch + column() * 2;
    if (is_whole()) {
      float4 x[moves];
#pragma unroll
      for (int i = 0; i < moves; ++i) x[i] = ptx::ld_shared_f32x4(from + i * rows_at_once * pitch);
#pragma unroll
      for (int i = 0; i < moves; ++i) {
        *reinterpret_cast<float4*>(to) = x[i];
        to += rows_at_once * token_;
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < moves; ++i) {
        const float4 x = ptx::ld_shared_f32x4(from + i * rows_at_once * pitch);
        if (exists(i)) *reinterpret_cast<float4*>(to) = x;
        to += rows_at_once * token_;
      }
    }
  }

 private:
  // Of this lane's first move.
  KDA_DEVICE int row() const { return lane_ / units; }
  KDA_DEVICE int column() const { return lane_ % units * 8; }

  KDA_DEVICE bool is_whole() const { return left_ >= Chain::chunk && exist_ == columns; }
  KDA_DEVICE bool exists(int move) const {
    return row() + move * rows_at_once < left_ && column() < exist_;
  }
  KDA_DEVICE u16* at(int row, int column) const {
    return reinterpret_cast<u16*>(first_ + row * token_) + column;
  }
  template <class What>
  KDA_DEVICE void each(const What& what) const {
#pragma unroll 1
    for (int i = lane_; i < Chain::chunk * columns; i += lanes) {
      what(i / columns, i % columns, i / columns < left_ && i % columns < exist_);
    }
  }

  int lane_;     // of the warps that move rows
  i64 token_;    // bytes
  char* first_;  // this chunk's first row
  i64 left_;     // tokens from there on
  int exist_;    // columns
  bool vectored_;
};

// What each warp that moves rows does with a task's chunks, from a place in the ring on: brings v
// to them and takes o from where it lay.  ended(number): whether the consumers will leave no o from
// that chunk on, asked once they have left the one before.
template <class Chain, class From, class To, class Ended>
KDA_DEVICE void move_rows(const typename Chain::Ring& ring, typename Chain::Cursor here, From& v,
                          To& o, int chunks, const Ended& ended) {
  const int end = chunks + (Chain::writes_outputs ? Chain::stages : 0);
#pragma unroll 1
  for (int at = 0; at < end; ++at) {
    const bool leaves = Chain::writes_outputs && at >= Chain::stages;
    if (leaves || at < chunks) ring.wait_empty(here);
    const u32 rows = ring.at(here) + Chain::slot.v;
    if (leaves) {
      o.store(rows);
      o.next();
      if (ended(at - Chain::stages + 1)) break;
    }
    if (at < chunks) {
      v.load(rows, ring.full(here));
      v.next();
    }
    here.next();
  }
  ptx::cp_async_wait_all();
}

// The same for a task of a run's v and o; with no outputs v alone.
template <class Chain>
KDA_DEVICE void move_rows(const typename Chain::Ring& ring, const abi::chunk::RecurrenceArgs& args,
                          const Task& task, int warp) {
  // The same way for both, so that each lane loads where it alone has read.
  const bool vectored =
      is_vectored<Chain::type>(args.in.v, Chain::values) &&
      (!Chain::writes_outputs || is_vectored<Chain::type>(args.out.o, Chain::values));
  Rows<Chain> v(args.in.v, task, warp, vectored);
  Rows<Chain> o(args.out.o, task, warp, vectored);
  move_rows<Chain>(ring, {}, v, o, task.chunks, [](int) { return false; });
}

}  // namespace kda::chunk_wgmma
