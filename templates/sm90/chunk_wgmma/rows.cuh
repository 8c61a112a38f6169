// Rows of tokens on their way through a chain, by a warp of its own: v to each chunk's slot, and o,
// which the consumers leave where v lay, from there.
#pragma once

#include "base/tensor.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/shared_words.cuh"
#include "sm90/chunk_wgmma/chain.cuh"

namespace kda::chunk_wgmma {

// A task's rows of v or o, chunk by chunk: the block's V columns.  16 bytes a move where the tensor
// lies so, or element by element.
template <class Chain>
struct Rows {
  static constexpr int columns = Chain::columns;
  static constexpr int units = columns / 8;                   // of 16 bytes, a row
  static constexpr int moves = Chain::chunk * units / 32;     // a lane and chunk
  static constexpr int pitch = Chain::value_row;

  u16* at;     // this chunk's first row
  i64 token;   // elements
  i64 left;    // tokens from there on
  int exist;   // columns
  bool vectored;

  KDA_DEVICE Rows(const abi::Tensor& tensor, const Task& task)
      : at(static_cast<u16*>(const_cast<void*>(tensor.data)) + task.value0 +
           task.first * tensor.token +
           offset_of<Chain::shape.varlen>(tensor, task.n, task.sequence.begin, task.head)),
        token(tensor.token),
        left(task.sequence.length() - task.first),
        exist(smaller(Chain::values - task.value0, columns)),
        vectored(is_vectored<Chain::type>(tensor, Chain::values)) {}

  KDA_DEVICE void next() {
    at += Chain::chunk * token;
    left -= Chain::chunk;
  }

  // Starts bringing a chunk; what does not exist as zeros.
  KDA_DEVICE void load(u32 to) const {
    const int lane = threadIdx.x % 32;
    if (vectored) {
#pragma unroll
      for (int i = 0; i < moves; ++i) {
        const int row = (i * 32 + lane) / units;
        const int column = lane % units * 8;
        const bool there = row < left && column < exist;
        ptx::cp_async_16_or_zero(to + row * pitch + column * 2,
                                 at + (there ? row * token + column : 0), there);
      }
    } else {
      for (int i = lane; i < Chain::chunk * columns; i += 32) {
        const int row = i / columns;
        const int column = i % columns;
        const u16 x = row < left && column < exist ? at[row * token + column] : u16(0);
        ptx::st_shared_u16(to + row * pitch + column * 2, x);
      }
    }
  }

  // Counted by the barrier, once it has arrived.
  KDA_DEVICE void announce(u32 barrier) const {
    if (vectored) {
      ptx::cp_async_arrive(barrier);
    } else {
      ptx::mbarrier_arrive(barrier);
    }
  }

  // Takes a chunk away.
  KDA_DEVICE void store(u32 from) const {
    const int lane = threadIdx.x % 32;
    if (vectored) {
      float4 x[moves];
#pragma unroll
      for (int i = 0; i < moves; ++i) {
        const int row = (i * 32 + lane) / units;
        x[i] = ptx::ld_shared_f32x4(from + row * pitch + lane % units * 16);
      }
#pragma unroll
      for (int i = 0; i < moves; ++i) {
        const int row = (i * 32 + lane) / units;
        const int column = lane % units * 8;
        if (row < left && column < exist) {
          *reinterpret_cast<float4*>(at + row * token + column) = x[i];
        }
      }
    } else {
      for (int i = lane; i < Chain::chunk * columns; i += 32) {
        const int row = i / columns;
        const int column = i % columns;
        const u16 x = ptx::ld_shared_u16(from + row * pitch + column * 2);
        if (row < left && column < exist) at[row * token + column] = x;
      }
    }
  }
};

// The warp that moves them; with no outputs v alone.
template <class Chain>
KDA_DEVICE void move_rows(const typename Chain::Ring& ring, const abi::chunk::RecurrenceArgs& args,
                          const Task& task) {
  Rows<Chain> v(args.in.v, task);
  Rows<Chain> o(args.out.o, task);
  const int end = task.chunks + (Chain::writes_outputs ? Chain::stages : 0);
  typename Chain::Cursor here;
#pragma unroll 1
  for (int at = 0; at < end; ++at) {
    const bool leaves = Chain::writes_outputs && at >= Chain::stages;
    if (leaves || at < task.chunks) ring.wait_empty(here);
    const u32 rows = ring.at(here) + Chain::slot.v;
    if (leaves) {
      o.store(rows);
      o.next();
      __syncwarp();  // lanes may load where others have read
    }
    if (at < task.chunks) {
      v.load(rows);
      v.announce(ring.full(here));
      v.next();
    }
    here.next();
  }
  ptx::cp_async_wait_all();
}

}  // namespace kda::chunk_wgmma
