// Rows of v and o of the block's 64 V columns.  Beside teams there are three places that chunks
// take in turn: v comes to one two chunks ahead, o is left there in its stead and goes a chunk
// later.  Beside groups v comes a chunk ahead, and o leaves from a place of its own.  Chunks go by
// the copy engine, of which one thread or two take care.  In packs another sequence's tokens follow
// the last ones: they come with these and are blanked, and o goes by hand.  What the engine does
// not take at all goes by hand, element by element.  Rows of 128 bytes, their 16-byte units
// exchanged by the row as the engine does it, so that transposed reads of a column of units meet
// every bank.
#pragma once

#include "abi/tensors.h"
#include "ptx/barrier.cuh"
#include "ptx/bulk.cuh"
#include "ptx/elect.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/tensor_copy.cuh"
#include "sm90/fused/pair.cuh"
#include "sm90/fused/task.cuh"

namespace kda::fused {

class Rows {
  static constexpr int threads = 128;
  static constexpr int row_bytes = Pair::value_row;
  static constexpr int columns = abi::fused::columns;
  static constexpr bool in_place = Pair::in_place;
  static constexpr u32 places = layout.places;
  // Which warps take care, by one thread each; where v can come only when o has gone, one.
  static constexpr u32 brings = 0;
  static constexpr u32 takes_away = in_place ? brings : 1;
  // Whether v comes to the L2 two chunks before it comes here: beside three groups, where a chunk
  // ahead is too late, but not where it costs more than it brings (tools/results/log/fused.md).
  static constexpr bool prefetches = groups == 3;

 public:
  // All who walk.
  static KDA_DEVICE void meet() { ptx::barrier_wait(1 + groups, threads); }

  KDA_DEVICE Rows(const Pair& pair, const abi::fused::Args& args) : pair_(pair), args_(args) {}

  // A piece of a part, of some chunks.  thread: of the warpgroup.  What follows from the task is
  // known to be the same for a whole warp.
  KDA_DEVICE void begin(const Task& task, int thread) {
    padding_ = shape.state_pool && uniform(task.padding) != 0;
    if constexpr (segments > 1) lead_ = uniform(task.padding) != 0 ? lead_chunks : 0;
    rest_ = uniform(task.rest);
    chunks_ = uniform(task.chunks);
    token_ = uniform(task.token);
    n_ = uniform(task.n);
    head_ = uniform(task.head);
    slab_ = uniform(task.slab);
    warp_ = static_cast<u32>(uniform(thread / 32));
    has_left_ = false;
    // Hands are asked for at every chunk, or for the last one, or never.
    const bool always = !args_.maps || padding_;
    stop_ = always ? chunks_ : (shape.varlen && rest_ < chunk ? 1 : 0);
    takes_ = warp_ == takes_away && !always;
    brings_ = warp_ == brings && args_.maps;
    if (!args_.maps) load_elements(thread, token_, rows_of_chunk(0));
    if (brings_ && ptx::elect()) {
      if (written_by_hand) ptx::fence_async_proxy();
      for (int i = 0; i < static_cast<int>(places) && i < chunks_; ++i) bring(i);
    }
  }

  // Where else stops() is to be told: with so many left.
  KDA_DEVICE void stop_at(int left) {
    if (args_.maps) stop_ = left;
  }

  // Chunks of the piece that are still to come.
  KDA_DEVICE int left() const { return chunks_; }

  // Until the chunk's v is there.
  KDA_DEVICE void wait() const { ptx::mbarrier_wait(pair_.brought(place_), turn_); }
  // Where it stands, and where o is left.
  KDA_DEVICE u32 values() const { return pair_.v(place_); }
  KDA_DEVICE u32 outputs() const { return in_place ? values() : pair_.o(); }

  // The warp has read it.
  KDA_DEVICE void have_read(int thread) const {
    if constexpr (in_place) return;
    __syncwarp();
    if (thread % 32 == 0) ptx::mbarrier_arrive(pair_.read());
  }

  // o of the chunk before goes; and where it has a place of its own the next chunk's v comes, once
  // all warps have read this one's.
  KDA_DEVICE void pass() const {
    if (!in_place && brings_ && chunks_ > 1) {
      if (ptx::elect()) {
        ptx::mbarrier_wait(pair_.read(), round_);
        bring(1);
      }
    }
    if (takes_ && has_left_) {
      if (ptx::elect()) {
        ptx::mbarrier_wait(pair_.left(), round_ ^ 1);
        if (!led()) take_away();
      }
    }
  }
  // A while after that: whether the next chunk's v is there.
  KDA_DEVICE bool is_next_there() const {
    const bool wraps = place_ + 1 == places;
    return ptx::mbarrier_test(pair_.brought(wraps ? 0 : place_ + 1), wraps ? turn_ ^ 1 : turn_);
  }
  // When o of the chunk before has gone: its place is free, or v of the chunk after the next comes
  // there.
  KDA_DEVICE void clear() const {
    if (!has_left_ || !(in_place ? brings_ : takes_)) return;
    if (ptx::elect()) {
      if (takes_) give_back();
      if (in_place && o_stays()) ptx::fence_async_proxy();
      if (in_place && chunks_ > 2 && args_.maps) bring(2);
    }
  }

  // Until the place of o is free.
  KDA_DEVICE void wait_free() const {
    if constexpr (!in_place) ptx::mbarrier_wait(pair_.free(), round_ ^ 1);
  }
  // On to the next chunk; the warp has left its part of o.
  KDA_DEVICE void next(int thread) {
    __syncwarp();
    if (thread % 32 == 0) ptx::mbarrier_arrive(pair_.left());
    has_left_ = true;
    if (segments > 1 && lead_ >= 0) --lead_;
    --chunks_;
    round_ ^= 1;
    if (++place_ == places) {
      place_ = 0;
      turn_ ^= 1;
    }
    token_ += chunk;
  }

  // After next(): whether the piece is over, or hands are asked for.
  KDA_DEVICE bool stops() const { return chunks_ <= stop_; }
  // Whether the chunk at hand is its sequence's last and the engine brings more than that; and
  // zeros in the stead of what is another's.
  KDA_DEVICE bool brings_more() const {
    return shape.varlen && args_.maps && chunks_ == 1 && rest_ < chunk;
  }
  KDA_DEVICE void blank(int thread) const {
    wait();
    for (int at = rest_ * row_bytes + thread * 16; at < chunk * row_bytes; at += threads * 16) {
      ptx::st_shared_u32x4(values() + at, make_uint4(0, 0, 0, 0));
    }
    meet();
  }

  // After next(): whether the engine cannot take the chunk's o or bring the next one's v alone; and
  // that by hand.
  KDA_DEVICE bool asks_for_hands() const {
    return !args_.maps || padding_ || (shape.varlen && chunks_ <= 1 && rest_ < chunk);
  }
  KDA_DEVICE void by_hand(int thread) const {
    meet();
    const int rows = chunks_ > 0 ? chunk : rest_;
    if (!takes_by_map(rows)) {
      if ((!padding_ || shape.zero_padding) && !led()) store(thread, token_ - chunk, rows);
      meet();
      if (!in_place && warp_ == takes_away && ptx::elect()) ptx::mbarrier_arrive(pair_.free());
    }
    if (chunks_ > 0 && !args_.maps) load_elements(thread, token_, rows_of_chunk(0));
    if (brings_more()) blank(thread);
  }

  // Whether the chunk before had all its tokens, after next().
  KDA_DEVICE bool was_whole() const { return chunks_ > 0 || rest_ == chunk; }
  // As begin() was told.
  KDA_DEVICE bool padding() const { return padding_; }
  // After the last chunk: all have read v and left o, which goes.
  KDA_DEVICE void end() const {
    meet();
    if (warp_ == takes_away && takes_by_map(rest_) && ptx::elect()) {
      take_away();
      give_back();
    }
  }

 private:
  // A lane's, of all of its warp.
  static KDA_DEVICE int uniform(int x) { return __shfl_sync(0xffffffffU, x, 0); }

  // Whether the chunk before was a lead's.
  KDA_DEVICE bool led() const { return segments > 1 && lead_ >= 0; }
  // Whether the engine takes so many rows away: in packs another sequence's follow.
  KDA_DEVICE bool takes_by_map(int rows) const {
    return args_.maps && (rows == chunk || !shape.varlen) && !padding_;
  }
  KDA_DEVICE ptx::Corner corner(int token) const {
    return {token, slab_, head_, shape.varlen ? 0 : n_};
  }
  // Tokens of a chunk so many after the one at hand.
  KDA_DEVICE int rows_of_chunk(int after) const { return chunks_ > after + 1 ? chunk : rest_; }
  // v of such a chunk, whose place is free.
  KDA_DEVICE void bring(int after) const {
    const u32 at = place_ + static_cast<u32>(after) % places;
    const u32 place = at < places ? at : at - places;
    ptx::mbarrier_arrive_expecting(pair_.brought(place), Pair::values_bytes);
    ptx::tensor_load(pair_.v(place), args_.v, corner(token_ + after * chunk), pair_.brought(place));
    if constexpr (prefetches) ptx::tensor_prefetch(args_.v, corner(token_ + (after + 2) * chunk));
  }
  // Where o of the chunk before lies.
  KDA_DEVICE u32 outputs_before() const {
    return in_place ? pair_.v(place_ == 0 ? places - 1 : place_ - 1) : pair_.o();
  }
  KDA_DEVICE void take_away() const {
    ptx::fence_async_proxy();
    ptx::tensor_store(args_.o, corner(token_ - chunk), outputs_before());
    ptx::bulk_store_commit();
  }
  KDA_DEVICE void give_back() const {
    ptx::bulk_store_wait_read();
    if constexpr (!in_place) ptx::mbarrier_arrive(pair_.free());
  }

  // Whether what has been written by hand may stand where a piece's first rows of v come: v, or o
  // that has left so, or that never does.
  static constexpr bool written_by_hand =
      shape.varlen || (in_place && (shape.state_pool || segments > 1));
  // Whether such an o may stand where later ones come; else the engine has been told of it as it
  // took it away.
  KDA_DEVICE bool o_stays() const { return segments > 1 || (written_by_hand && !takes_); }

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
    if (warp_ == brings && ptx::elect()) ptx::mbarrier_arrive(pair_.brought(place_));
  }
  // o of some tokens; zeros for padding.
  KDA_DEVICE void store(int thread, int token, int rows) const {
    if (!args_.maps) {
      store_elements(thread, token, rows);
      return;
    }
    asm volatile("" : "+r"(thread));
    constexpr int units = row_bytes / 16;  // rows of a mapped tensor lie on these
    u16* to = rows_of(args_.out.o, token);
#pragma unroll 1
    for (int i = thread; i < rows * units; i += threads) {
      const int row = i / units;
      const uint4 x = ptx::ld_shared_u32x4(outputs_before() + row_place(row, i % units * 8));
      *reinterpret_cast<uint4*>(to + row * args_.out.o.token + i % units * 8) =
          padding_ ? make_uint4(0, 0, 0, 0) : x;
    }
  }
  KDA_DEVICE void store_elements(int thread, int token, int rows) const {
    const Own own(thread);
    u16* to = rows_of(args_.out.o, token) + own.column;
#pragma unroll 1
    for (int row = own.row; row < rows; row += rows_at_once) {
      const u16 x = ptx::ld_shared_u16(outputs_before() + row_place(row, own.column));
      to[row * args_.out.o.token] = padding_ ? u16(0) : x;
    }
  }

  const Pair& pair_;
  const abi::fused::Args& args_;

  int n_ = 0;
  int head_ = 0;
  int slab_ = 0;    // the block's V columns among all
  int token_ = 0;   // of the chunk at hand, the first; in packs of the pack
  int chunks_ = 0;  // of the piece, from the one at hand on
  int rest_ = 0;    // tokens of its last one
  u32 round_ = 0;   // chunks so far, by parity
  u32 place_ = 0;   // of the chunk at hand, and how often that has been taken, by parity
  u32 turn_ = 0;
  u32 warp_ = 0;           // of the warpgroup
  bool padding_ = false;   // of the part
  int lead_ = 0;           // chunks up to the segment, not below -1; o of those goes nowhere
  bool has_left_ = false;  // o of the chunk before
  int stop_ = 0;           // hands are asked for where so many chunks are left
  bool takes_ = false;     // whether this warp has the engine take o away, or bring v
  bool brings_ = false;
};

}  // namespace kda::fused
