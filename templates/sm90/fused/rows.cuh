// Rows of v and o of the block's 64 V columns: v comes to shared memory a chunk ahead, or beside
// teams two, and o leaves from there a chunk later, each from places of its own.  Whole chunks go
// by the copy engine, of which two threads take care; what it cannot take goes by hand, element by
// element.  Rows of 128 bytes, their 16-byte units exchanged by the row as the engine does it, so
// that transposed reads of a column of units meet every bank.
#pragma once

#include "base/tensor.cuh"
#include "ptx/barrier.cuh"
#include "ptx/bulk.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/tensor_copy.cuh"
#include "sm90/fused/pair.cuh"
#include "sm90/fused/task.cuh"

namespace kda::fused {

class Rows {
  static constexpr int threads = 128;
  static constexpr int row_bytes = Pair::value_row;
  static constexpr int columns = abi::fused::columns;
  // Which threads take care: of different warps, that none of them is late.
  static constexpr int brings = 0;
  static constexpr int takes_away = 32;

 public:
  KDA_DEVICE Rows(const Pair& pair, const abi::fused::Args& args) : pair_(pair), args_(args) {}

  // A piece of a part, of some chunks.  thread: of the warpgroup.
  KDA_DEVICE void begin(const Task& task, int thread) {
    padding_ = shape.state_pool && task.padding;
    rest_ = task.rest;
    chunks_ = task.chunks;
    token_ = task.token;
    n_ = task.n;
    head_ = task.head;
    slab_ = task.slab;
    const int rows = chunks_ > 1 ? chunk : rest_;
    if (!brings_by_map(rows)) {
      load_elements(thread, token_, rows);
    } else if (thread == brings) {
      bring(token_, place());
    }
    if constexpr (ahead == 2) {
      if (thread == brings && chunks_ > 1 && brings_by_map(chunks_ > 2 ? chunk : rest_)) {
        bring(token_ + chunk, place() ^ 1);
      }
    }
  }

  // Chunks of the piece that are still to come.
  KDA_DEVICE int left() const { return chunks_; }

  // Whether the chunk's v is there, and until it is.
  KDA_DEVICE bool is_there() const { return ptx::mbarrier_test(pair_.brought(place()), phase()); }
  KDA_DEVICE void wait() const { ptx::mbarrier_wait(pair_.brought(place()), phase()); }
  // Where it stands.
  KDA_DEVICE u32 values() const { return pair_.v(place()); }

  // The warp has read it.
  KDA_DEVICE void have_read(int thread) const {
    __syncwarp();
    if (thread % 32 == 0) ptx::mbarrier_arrive(pair_.read());
  }

  // o of the chunk before goes.
  KDA_DEVICE void let_go(int thread, bool had_one) const {
    if (had_one && thread == takes_away && takes_by_map(chunk)) {
      ptx::mbarrier_wait(pair_.left(), round_ ^ 1);
      take_away();
    }
  }
  // A later chunk's v comes, once all warps have read this one's; and a while after let_go(), the
  // place of o is free.
  KDA_DEVICE void pass(int thread, bool had_one) const {
    if (thread == brings && chunks_ > ahead && brings_by_map(chunks_ > ahead + 1 ? chunk : rest_)) {
      ptx::mbarrier_wait(pair_.read(), round_);
      bring(token_ + ahead * chunk, place());
    }
    if (had_one && thread == takes_away && takes_by_map(chunk)) clear();
  }

  // Until the place of o is free.
  KDA_DEVICE void wait_free() const { ptx::mbarrier_wait(pair_.free(), round_ ^ 1); }
  // On to the next chunk; the warp has left its part of o.
  KDA_DEVICE void next(int thread) {
    __syncwarp();
    if (thread % 32 == 0) ptx::mbarrier_arrive(pair_.left());
    --chunks_;
    round_ ^= 1;
    if constexpr (ahead == 2) turns_ ^= round_ ^ 1;
    token_ += chunk;
  }

  // After next(): whether the engine cannot take the chunk's o or bring the next one's v; and that
  // by hand.
  KDA_DEVICE bool asks_for_hands() const {
    return !args_.maps || padding_ || (shape.varlen && chunks_ <= 1 && rest_ < chunk);
  }
  KDA_DEVICE void by_hand(int thread) const {
    meet();
    const int rows = chunks_ > 0 ? chunk : rest_;
    if (!takes_by_map(rows)) {
      if (!padding_ || shape.zero_padding) store_elements(thread, token_ - chunk, rows);
      meet();
      if (thread == takes_away) ptx::mbarrier_arrive(pair_.free());
    }
    const int next = chunks_ > 1 ? chunk : rest_;
    if (chunks_ > 0 && !brings_by_map(next)) load_elements(thread, token_, next);
  }

  // Whether the chunk before had all its tokens, after next().
  KDA_DEVICE bool was_whole() const { return chunks_ > 0 || rest_ == chunk; }
  // As begin() was told.
  KDA_DEVICE bool padding() const { return padding_; }
  // After the last chunk: all have read v and left o, which goes.
  KDA_DEVICE void end(int thread) const {
    meet();
    if (thread == takes_away && takes_by_map(rest_)) {
      take_away();
      clear();
    }
  }

 private:
  // Whether the engine takes so many rows: in packs another sequence's follow.
  KDA_DEVICE bool brings_by_map(int rows) const {
    return args_.maps && (rows == chunk || !shape.varlen);
  }
  KDA_DEVICE bool takes_by_map(int rows) const { return brings_by_map(rows) && !padding_; }
  KDA_DEVICE ptx::Corner corner(int token) const {
    return {token, slab_, head_, shape.varlen ? 0 : n_};
  }
  KDA_DEVICE void bring(int token, u32 place) const {
    if (shape.varlen) ptx::fence_async_proxy();  // v may have come by hand before
    ptx::mbarrier_arrive_expecting(pair_.brought(place), Pair::values_bytes);
    ptx::tensor_load(pair_.v(place), args_.v, corner(token), pair_.brought(place));
  }
  static constexpr int ahead = layout.ahead;  // places of v, which take turns
  KDA_DEVICE u32 place() const { return ahead == 2 ? round_ : 0; }
  KDA_DEVICE u32 phase() const { return ahead == 2 ? turns_ : round_; }
  KDA_DEVICE void take_away() const {
    ptx::fence_async_proxy();
    ptx::tensor_store(args_.o, corner(token_ - chunk), pair_.o());
    ptx::bulk_store_commit();
  }
  KDA_DEVICE void clear() const {
    ptx::bulk_store_wait_read();
    ptx::mbarrier_arrive(pair_.free());
  }
  static KDA_DEVICE void meet() { ptx::barrier_wait(1 + groups, threads); }

  // Where a column of a row stands from a tile's begin on.
  static KDA_DEVICE u32 row_place(int row, int column) {
    return static_cast<u32>(row * row_bytes + (column / 8 ^ row % 8) * 16 + column % 8 * 2);
  }
  KDA_DEVICE u16* rows_of(const abi::Tensor& tensor, int token) const {
    return static_cast<u16*>(const_cast<void*>(tensor.data)) +
           (shape.varlen ? 0 : n_ * tensor.sequence) + token * tensor.token + head_ * tensor.head +
           slab_ * columns;
  }

  static constexpr int rows_at_once = threads / columns;
  static constexpr int in_flight = 8;  // elements a thread

  // A thread's column, and its first row; nothing of that is held over chunks for what is rare.
  struct Own {
    int column, row;

    KDA_DEVICE explicit Own(int thread) {
      asm volatile("" : "+r"(thread));
      column = thread % columns;
      row = thread / columns;
    }
  };

  // v of some tokens, of which `rows` exist, missing ones as zeros.
  KDA_DEVICE void load_elements(int thread, int token, int rows) const {
    const Own own(thread);
    const u16* from = rows_of(args_.in.v, token) + own.column;
#pragma unroll 1
    for (int first = own.row; first < chunk; first += rows_at_once * in_flight) {
      u16 x[in_flight];
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        const int row = first + i * rows_at_once;
        x[i] = row < rows ? from[row * args_.in.v.token] : u16(0);
      }
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        ptx::st_shared_u16(values() + row_place(first + i * rows_at_once, own.column), x[i]);
      }
    }
    meet();
    if (thread == brings) ptx::mbarrier_arrive(pair_.brought(place()));
  }
  // o of some tokens; zeros for padding.
  KDA_DEVICE void store_elements(int thread, int token, int rows) const {
    const Own own(thread);
    u16* to = rows_of(args_.out.o, token) + own.column;
#pragma unroll 1
    for (int row = own.row; row < rows; row += rows_at_once) {
      const u16 x = ptx::ld_shared_u16(pair_.o() + row_place(row, own.column));
      to[row * args_.out.o.token] = padding_ ? u16(0) : x;
    }
  }

  const Pair& pair_;
  const abi::fused::Args& args_;

  int n_ = 0;
  int head_ = 0;
  int slab_ = 0;          // the block's V columns among all
  int token_ = 0;         // of the chunk at hand, the first; in packs of the pack
  int chunks_ = 0;        // of the piece, from the one at hand on
  int rest_ = 0;          // tokens of its last one
  u32 round_ = 0;         // chunks so far, by parity
  u32 turns_ = 0;         // pairs of chunks so far, likewise
  bool padding_ = false;  // of the part
};

}  // namespace kda::fused
