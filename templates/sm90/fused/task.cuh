// A piece of a pair's line as a warp that walks takes it up.  It finds the next one while the state
// of one is on its way, and notes it in shared memory: between two pieces nothing is looked up.
#pragma once

#include "base/slots.cuh"
#include "ptx/flag.cuh"
#include "sm90/fused/pair.cuh"
#include "sm90/fused/stream.cuh"

namespace kda::fused {

// In the place of an int that nobody asks for, none.
struct Nothing {
  KDA_DEVICE Nothing& operator=(int) { return *this; }
  KDA_DEVICE operator int() const { return 0; }
};

struct Task {
  using Storage = storage<shape.state_type>;

  const Storage* start;  // state of the part's head that it begins with; null: zero
  Storage* end;          // where that is kept after it; null: nowhere
  int first, chunks;     // of the sequence's
  int rest;              // tokens of the last one
  int token;             // of the first one; in packs of the pack
  int n, head;
  int slab;  // the block's V columns among all
  // And among those of all segments and heads, where states are carried.
  [[no_unique_address]] either<carried, int, Nothing> tile;
  bool exists;
  bool begins, ends;  // with the part (stream.cuh)
  bool padding;       // of a sequence of which nothing is written, but perhaps zeros; or, where
                      // there are segments, whether it begins with a lead

  // Where a warp that walks notes it, among all notes: of two pieces.
  static KDA_DEVICE int place(int number, int warp) {
    return number % 2 * static_cast<int>(Pair::warps) + warp;
  }

  // Piece `number` of the line, given the sequence of the one before; a whole warp asks.
  static KDA_DEVICE Task of(const abi::Inputs& in, const abi::Outputs& out, const Line& line,
                            int number, int before) {
    const Piece piece = line.piece(in, number);
    Task task{};
    task.exists = piece.part < line.parts(in);
    if (!task.exists) return task;
    const Part part(in, piece.part, before);
    const Slots<shape> slots(out, part.n);
    task.padding = segments > 1 ? piece.leads() : shape.state_pool && slots.padding;
    if (!task.padding && slots.has_start() && !(carried && piece.is_later())) {
      task.start = slots.start(out, in, part.head);
    }
    if (shape.final_state && (segments > 1 || !task.padding)) {
      task.end = Slots<shape>::at(out, in, slots.own, part.head);
    }
    const i64 token = static_cast<i64>(piece.first) * chunk;
    const int chunks = piece.chunks == Piece::all ? part.chunks() : piece.chunks;
    const i64 left = part.sequence.length() - token - static_cast<i64>(chunks - 1) * chunk;
    task.first = piece.first;
    task.chunks = chunks;
    task.rest = left < chunk ? static_cast<int>(left) : chunk;
    task.token = static_cast<int>((shape.varlen ? part.sequence.begin : 0) + token);
    task.n = part.n;
    task.head = part.head;
    task.slab = part.shard * abi::fused::blocks + static_cast<int>(Pair::rank());
    task.begins = piece.begins;
    task.ends = piece.ends;
    if constexpr (carried) {
      // Numbered as by base/segment.cuh.
      const int tokens = Line::carried_chunks(in) * chunk;
      const int slot = static_cast<int>(part.sequence.begin / tokens) + part.n + Line::segment(in);
      constexpr int tiles = shape.value_dim / abi::fused::columns;
      task.tile = (slot * in.value_heads + part.head) * tiles + task.slab;
    }
    return task;
  }

  // A warp's first V column.
  KDA_DEVICE int value0(int warp) const { return slab * abi::fused::columns + warp * 16; }

  // What it starts from, to the L2, where V columns lie in a row; a whole warp.
  KDA_DEVICE void prefetch_start(int warp, int lane) const {
    if (!shape.state_value_first || !begins || start == nullptr) return;
    constexpr int bytes = 16 * shape.key_dim * static_cast<int>(sizeof(Storage));
    const auto* from = reinterpret_cast<const char*>(start + value0(warp) * shape.key_dim);
#pragma unroll
    for (int at = 0; at < bytes; at += 32 * 128) {
      const int own = at + lane * 128;
      if (own < bytes) ptx::prefetch(from + own);
    }
  }
};
static_assert(2 * Pair::warps * sizeof(Task) <= abi::fused::tasks_bytes(shape),
              "notes need room behind a slot's image");

}  // namespace kda::fused
