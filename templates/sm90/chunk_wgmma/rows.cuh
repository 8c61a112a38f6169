// Rows of tokens on their way through a chain, by warps of their own: v to each chunk's slot, and
// o, which the consumers leave where v lay, from there.  By one thread and the copy engine where it
// takes the tensors' rows, else by hand: while products run a warp's own moves take as long as a
// chunk does.
#pragma once

#include "abi/chunk_wgmma.h"
#include "base/tensor.cuh"
#include "ptx/bulk.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/l2_policy.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/tensor_copy.cuh"
#include "sm90/chunk_wgmma/chain.cuh"

namespace kda::chunk_wgmma {

// By hand: a task's rows of v or o, chunk by chunk, the block's V columns.  16 bytes a move where
// the tensor lies so, or element by element; where no row of V columns lies so, by pairs of them if
// they are aligned, and with many loads on their way.
template <class Chain>
class Rows {
  using Values = typename Chain::Values;
  static constexpr int columns = Chain::columns;
  static constexpr int units = columns / 8;  // of 16 bytes, a row
  static constexpr int lanes = 32 * Chain::row_warps;
  static constexpr int rows_at_once = lanes / units;
  static constexpr int moves = Chain::chunk / rows_at_once;  // a lane
  static constexpr bool never_vectored = Chain::values % 8 != 0;

 public:
  // vectored: 16 bytes a move; where that is never so, a pair of elements.
  KDA_DEVICE Rows(const abi::Tensor& tensor, const Task& task, int warp, bool vectored)
      : lane_(warp * 32 + static_cast<int>(threadIdx.x) % 32),
        token_(tensor.token * 2),
        first_(static_cast<char*>(const_cast<void*>(tensor.data)) + task.value0 * 2 +
               task.first * token_ +
               offset_of<Chain::shape.varlen>(tensor, task.n, task.sequence.begin, task.head) * 2),
        left_(task.sequence.length() - task.first),
        exist_(smaller(Chain::values - task.value0, columns)),
        place_(Values::at(row(), column())),
        vectored_(vectored) {
    asm volatile("" : "+r"(place_));  // not anew for each chunk
  }

  KDA_DEVICE void next() {
    first_ += Chain::chunk * token_;
    left_ -= Chain::chunk;
  }

  // Starts bringing a chunk, what does not exist as zeros; the barrier counts it once it is there.
  KDA_DEVICE void load(u32 to, u32 barrier) const {
    if constexpr (never_vectored) {
      if (Chain::values % 2 == 0 && vectored_) {
        load_together<u32>(to);
      } else {
        load_together<u16>(to);
      }
      ptx::mbarrier_arrive(barrier);
      return;
    }
    if (!vectored_) {
      each([&](int row, int column, bool there) {
        ptx::st_shared_u16(to + Values::at(row, column), there ? *at(row, column) : u16(0));
      });
      ptx::mbarrier_arrive(barrier);
      return;
    }
    const char* from = first_ + row() * token_ + column() * 2;
    if (is_whole()) {
#pragma unroll
      for (int i = 0; i < moves; ++i) {
        ptx::cp_async_16(to + place(i), from);
        from += rows_at_once * token_;
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < moves; ++i) {
        const bool there = exists(i);
        ptx::cp_async_16_or_zero(to + place(i), there ? from : first_, there);
        from += rows_at_once * token_;
      }
    }
    ptx::cp_async_arrive(barrier);
  }

  // Takes a chunk away.
  KDA_DEVICE void store(u32 from) const {
    if constexpr (never_vectored) {
      if (Chain::values % 2 == 0 && vectored_) {
        store_together<u32>(from);
      } else {
        store_together<u16>(from);
      }
      return;
    }
    if (!vectored_) {
      each([&](int row, int column, bool there) {
        const u16 x = ptx::ld_shared_u16(from + Values::at(row, column));
        if (there) *at(row, column) = x;
      });
      return;
    }
    char* to = first_ + row() * token_ + column() * 2;
    if (is_whole()) {
      float4 x[moves];
#pragma unroll
      for (int i = 0; i < moves; ++i) x[i] = ptx::ld_shared_f32x4(from + place(i));
#pragma unroll
      for (int i = 0; i < moves; ++i) {
        *reinterpret_cast<float4*>(to) = x[i];
        to += rows_at_once * token_;
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < moves; ++i) {
        const float4 x = ptx::ld_shared_f32x4(from + place(i));
        if (exists(i)) *reinterpret_cast<float4*>(to) = x;
        to += rows_at_once * token_;
      }
    }
  }

 private:
  // Of this lane's first move.
  KDA_DEVICE int row() const { return lane_ / units; }
  KDA_DEVICE int column() const { return lane_ % units * 8; }
  // Bytes to where one of its moves lies in shared memory: units are exchanged by the row,
  // modulo 8.
  KDA_DEVICE u32 place(int move) const {
    static_assert(rows_at_once % 8 == 0 || (rows_at_once == 4 && Values::row_bytes == 128));
    const u32 exchanged = rows_at_once == 4 && move % 2 != 0 ? place_ ^ (4 * 16) : place_;
    return exchanged + move * rows_at_once * Values::row_bytes;
  }

  KDA_DEVICE bool is_whole() const { return left_ >= Chain::chunk && exist_ == columns; }
  KDA_DEVICE bool exists(int move) const {
    return row() + move * rows_at_once < left_ && column() < exist_;
  }
  KDA_DEVICE u16* at(int row, int column) const {
    return reinterpret_cast<u16*>(first_ + row * token_) + column;
  }
  // A lane's elements of a chunk, or pairs of them, and how many it has on their way at once: more
  // leave a chain with checkpoints too few registers.
  template <class Word>
  static constexpr int words_a_lane = Chain::chunk*(columns * 2 / sizeof(Word)) / lanes;
  template <class Word>
  static constexpr int together = smaller(Chain::shape.checkpoints ? 8 : 16, words_a_lane<Word>);

  // visit(i, row, column) of the i-th from `begin` on.
  template <class Word, class Visit>
  KDA_DEVICE void each_of(int begin, const Visit& visit) const {
    constexpr int width = sizeof(Word) / 2;
    constexpr int words = columns / width;  // a row
    static_assert(words_a_lane<Word> % together<Word> == 0);
#pragma unroll
    for (int i = 0; i < together<Word>; ++i) {
      const int number = (begin + i) * lanes + lane_;
      visit(i, number / words, number % words * width);
    }
  }

  static KDA_DEVICE void put(u32 to, u16 x) { ptx::st_shared_u16(to, x); }
  static KDA_DEVICE void put(u32 to, u32 x) { ptx::st_shared_u32(to, x); }
  static KDA_DEVICE void take(u16& x, u32 from) { x = ptx::ld_shared_u16(from); }
  static KDA_DEVICE void take(u32& x, u32 from) { x = ptx::ld_shared_u32(from); }

  template <class Word>
  KDA_DEVICE void load_together(u32 to) const {
#pragma unroll 1
    for (int begin = 0; begin < words_a_lane<Word>; begin += together<Word>) {
      Word x[together<Word>];
      each_of<Word>(begin, [&](int i, int row, int column) {
        x[i] = row < left_ && column < exist_ ? *reinterpret_cast<const Word*>(at(row, column))
                                              : Word(0);
      });
      each_of<Word>(begin,
                    [&](int i, int row, int column) { put(to + Values::at(row, column), x[i]); });
    }
  }
  template <class Word>
  KDA_DEVICE void store_together(u32 from) const {
#pragma unroll 1
    for (int begin = 0; begin < words_a_lane<Word>; begin += together<Word>) {
      Word x[together<Word>];
      each_of<Word>(
          begin, [&](int i, int row, int column) { take(x[i], from + Values::at(row, column)); });
      each_of<Word>(begin, [&](int i, int row, int column) {
        if (row < left_ && column < exist_) *reinterpret_cast<Word*>(at(row, column)) = x[i];
      });
    }
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
  u32 place_;    // of its first move in shared memory, bytes
  bool vectored_;
};

// Whether Rows may move more than an element of a tensor at once.
template <class Chain>
KDA_DEVICE bool moves_more_than_one(const abi::Tensor& tensor) {
  if constexpr (Chain::values % 8 != 0) {
    return is_paired<Chain::type>(tensor, Chain::values);
  } else {
    return is_vectored<Chain::type>(tensor, Chain::values);
  }
}

// What each warp that moves rows by hand does with a task's chunks, from a place in the ring on:
// brings v to them and takes o from where it lay.
template <class Chain, class From, class To>
KDA_DEVICE void move_rows_by_hand(const typename Chain::Ring& ring, typename Chain::Cursor here,
                                  From& v, To& o, int chunks) {
#pragma unroll 1
  for (int at = 0; at < chunks + Chain::stages; ++at) {
    const bool leaves = at >= Chain::stages;
    if (leaves || at < chunks) ring.wait_empty(here);
    const u32 rows = ring.at(here) + Chain::slot.v;
    if (leaves) {
      o.store(rows);
      o.next();
    }
    if (at < chunks) {
      v.load(rows, ring.full(here));
      v.next();
    }
    here.next();
  }
  ptx::cp_async_wait_all();
}

// By the copy engine: v and o of a task of a dense run, by chunk; what lies past the sequence's end
// comes as zeros and is not written.  A whole warp comes to each.  gives_room: in the L2, to
// factors that groups prepare beside, as nobody reads these rows again.
template <class Chain, bool gives_room = false>
class EngineRows {
 public:
  KDA_DEVICE EngineRows(const abi::chunk_wgmma::RowMaps& maps, const Task& task)
      : maps_(maps), task_(task) {}

  // Starts bringing v of a chunk; the barrier is told of its bytes.
  KDA_DEVICE void load(int number, u32 to, u32 barrier) const {
    if (!leads()) return;
    ptx::mbarrier_arrive_expecting(barrier, panels * Values::panel_bytes);
#pragma unroll
    for (int i = 0; i < panels; ++i) {
      const u32 panel = to + i * Values::panel_bytes;
      if constexpr (gives_room) {
        ptx::tensor_load(panel, maps_.v, corner(number, i), barrier,
                         ptx::createpolicy_evict_first());
      } else {
        ptx::tensor_load(panel, maps_.v, corner(number, i), barrier);
      }
    }
  }

  // Starts to take o of a chunk away, in this thread's group of bulk stores.
  KDA_DEVICE void store(int number, u32 from) const {
    if (!leads()) return;
#pragma unroll
    for (int i = 0; i < panels; ++i) {
      const u32 panel = from + i * Values::panel_bytes;
      if constexpr (gives_room) {
        ptx::tensor_store(maps_.o, corner(number, i), panel, ptx::createpolicy_evict_first());
      } else {
        ptx::tensor_store(maps_.o, corner(number, i), panel);
      }
    }
  }

  static KDA_DEVICE bool leads() { return threadIdx.x % 32 == 0; }

 private:
  using Values = typename Chain::Values;
  static constexpr int panels = Chain::columns / 64;

  KDA_DEVICE ptx::Corner corner(int number, int panel) const {
    const i64 first = task_.first + number * Chain::chunk;
    return {static_cast<int>(first), task_.value0 / 64 + panel, task_.head, task_.n};
  }

  const abi::chunk_wgmma::RowMaps& maps_;
  Task task_;
};

// What the one warp does with a task's chunks that has the engine move them.  ended(number):
// whether the consumers will leave no o from that chunk on, asked once they have left the one
// before.
template <class Chain, class Moves, class Ended>
KDA_DEVICE void move_rows_by_engine(const typename Chain::Ring& ring, const Moves& moves,
                                    int chunks, const Ended& ended) {
  // v comes a chunk later where the ring has room, when the engine has surely read the o that lay
  // in its place.
  constexpr int late = Chain::stages > 2 ? 1 : 0;
  const bool leads = threadIdx.x % 32 == 0;
  typename Chain::Cursor from, to;
#pragma unroll 1
  for (int at = 0; at < chunks + Chain::stages; ++at) {
    if (at >= Chain::stages) {
      ring.wait_empty(from);
      if (leads) ptx::fence_async_proxy();
      moves.store(at - Chain::stages, ring.at(from) + Chain::slot.v);
      if (leads) ptx::bulk_store_commit();
    }
    from.next();
    const int number = at - late;
    if (number >= 0 && number < chunks) {
      if (leads) ptx::bulk_store_wait_read<late>();
      __syncwarp();
      moves.load(number, ring.at(to) + Chain::slot.v, ring.full(to));
      to.next();
    }
    // Only now: what has been fed is waited for, and counts as landed when this has, too.
    if (at >= Chain::stages && ended(at - Chain::stages + 1)) break;
  }
  if (leads) ptx::bulk_store_wait_read();
  __syncwarp();
}

// Whether the engine moves a task's rows.
template <class Chain>
KDA_DEVICE bool by_engine(const abi::chunk_wgmma::RowMaps& maps) {
  return Chain::maps_rows && maps.present;
}

// The warps that move a task's rows of a run's v and o.
template <class Chain>
KDA_DEVICE void move_rows(const typename Chain::Ring& ring, const abi::chunk_wgmma::Args& all,
                          const Task& task, int warp) {
  const abi::chunk::RecurrenceArgs& args = all.chain;
  if (by_engine<Chain>(all.rows)) {
    if (warp > 0) return;
    const EngineRows<Chain, Chain::beside> moves(all.rows, task);
    move_rows_by_engine<Chain>(ring, moves, task.chunks, [](int) { return false; });
    return;
  }
  // The same way for both, so that each lane loads where it alone has read.
  const bool vectored =
      moves_more_than_one<Chain>(args.in.v) && moves_more_than_one<Chain>(args.out.o);
  Rows<Chain> v(args.in.v, task, warp, vectored);
  Rows<Chain> o(args.out.o, task, warp, vectored);
  move_rows_by_hand<Chain>(ring, {}, v, o, task.chunks);
}

}  // namespace kda::chunk_wgmma
