// The chunks that a pair of blocks takes, numbered as pair.cuh counts them: its line of pieces of
// parts, one after another.  A part is a sequence, a value head and the V columns that a pair
// walks.
#pragma once

#include "abi/by_gates.h"
#include "abi/fused.h"
#include "base/varlen.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/special_registers.cuh"
#include "sm90/factors/tile.cuh"
#include "sm90/long_sequence.cuh"

namespace kda::fused {

constexpr int shards = shape.value_dim / (abi::fused::blocks * abi::fused::columns);

// Whether a stage of their own serves short sequences: only long ones have parts then.
constexpr bool leaves_short = tune.short_tokens > 1;

// Segments of each part, a pair's each; the lead before one forgets what came before it
// (fused/forget.cuh).
constexpr int segments = tune.segments;
constexpr bool carried = tune.carried != 0;  // segments have no leads: states are carried into them
constexpr int lead_chunks = carried ? 0 : abi::by_gates::lead_chunks;

struct Part {
  int n, head, shard;
  Sequence sequence;

  // `before`: where short sequences have no parts, the sequence of the pair's part before this one,
  // if there is one.  A whole warp asks.
  KDA_DEVICE Part(const abi::Inputs& in, int number, int before)
      : n(number / shards / in.value_heads),
        head(number / shards % in.value_heads),
        shard(number % shards) {
    if constexpr (leaves_short) {
      n = nth_long(in, n, number - pairs(), before);
    } else if constexpr (shape.varlen) {
      // Engines pack decodes before prefills: the last sequences are the long ones, and start
      // first.
      n = in.sequences - 1 - n;
    }
    sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n);
  }

  // Read where it stands, so that no register holds it.
  static KDA_DEVICE int pairs() { return static_cast<int>(ptx::blocks_now() / abi::fused::blocks); }

  KDA_DEVICE int chunks() const {
    return static_cast<int>((sequence.length() + chunk - 1) / chunk);
  }

  static KDA_DEVICE int count(const abi::Inputs& in) {
    int sequences = in.sequences;
    asm volatile("" : "+r"(sequences));  // counted where it stands, that no register holds it
    return sequences * in.value_heads * shards;
  }

 private:
  // The long sequence of that rank from the last one on, given that of another part's.
  static KDA_DEVICE int nth_long(const abi::Inputs& in, int rank, int part_before, int before) {
    if (part_before < 0) return long_sequence<shape, tune.short_tokens, 1>(in, in.sequences, rank);
    const int on = rank - part_before / shards / in.value_heads;
    return on > 0 ? long_sequence<shape, tune.short_tokens, 1>(in, before, on - 1) : before;
  }
};

// Some chunks of a part.
struct Piece {
  static constexpr int all = -1;

  int part;     // past the last one: the line is over
  int first;    // chunk
  int chunks;   // perhaps none; or all of the part's, which who looks the part up finds out
  bool begins;  // with the part; else its state comes from the pair before
  bool ends;    // with it; else its state goes to the pair after

  // Whether it begins a later segment, from nothing; and whether it does with a lead.
  KDA_DEVICE bool is_later() const { return segments > 1 && first > 0; }
  KDA_DEVICE bool leads() const { return !carried && is_later(); }
};

// What a pair takes: every so many parts, so that all pairs are at the same tokens of neighbouring
// heads.  Where that leaves some pair with too much, all parts' chunks are laid in a row, which is
// cut into lines of the same length (McNaughton's rule).  A part that is cut between two has its
// first chunks at the beginning of the one and its last at the end of the other.  No line is
// shorter than a part, so these come one after the other there, too.
class Line {
 public:
  u32 decision;  // shared address of a word: whether parts are cut, or how many sequences are long

  // Read where they stand, so that no registers hold them.
  static KDA_DEVICE int pair() { return static_cast<int>(ptx::block_now() / abi::fused::blocks); }
  static KDA_DEVICE int pairs() { return Part::pairs(); }

  // By a warp of the block, before others ask.
  KDA_DEVICE void decide(const abi::Inputs& in) const {
    u32 word;
    if constexpr (leaves_short) {
      word = static_cast<u32>(long_sequences<shape, tune.short_tokens>(in));
    } else {
      word = may_cut(in) ? 1 : 0;
    }
    if (threadIdx.x % 32 == 0) ptx::st_shared_u32(decision, word);
  }

  // Parts of all pairs.
  KDA_DEVICE int parts(const abi::Inputs& in) const {
    if constexpr (leaves_short) {
      return static_cast<int>(ptx::ld_shared_u32(decision)) * in.value_heads * shards;
    } else {
      return Part::count(in);
    }
  }

  // Piece `number`, from 0 on; a whole warp asks.
  KDA_DEVICE Piece piece(const abi::Inputs& in, int number) const {
    if constexpr (segments > 1) return piece_of_segment(in, number);
    if (leaves_short || ptx::ld_shared_u32(decision) == 0) {
      return {pair() + number * pairs(), 0, Piece::all, true, true};
    }
    const int parts = Part::count(in);
    if constexpr (shape.varlen) {
      return piece_of_few(in, number);
    } else {
      i64 length = in.length;
      asm volatile("" : "+l"(length));
      const int each = static_cast<int>((length + chunk - 1) / chunk);
      const Cut cut(parts * each);
      const int part = cut.from / each + number;
      if (part * each >= cut.to) return {parts, 0, 0, true, true};
      return cut.piece(part, part * each, each);
    }
  }

  // Of a segment without a lead.
  KDA_DEVICE static int carried_chunks(const abi::Inputs& in) {
    const i64 chunks = (in.length + chunk - 1) / chunk;
    return larger(static_cast<int>((chunks + segments - 1) / segments), 1);
  }
  // The pair's segment.
  KDA_DEVICE static int segment(const abi::Inputs& in) { return pair() / Part::count(in); }

 private:
  static constexpr i64 most = i64{1} << 30;  // chunks of all parts that 32 bits count with ease

  // The first segments of all parts are the first pairs', and so on.
  KDA_DEVICE static Piece piece_of_segment(const abi::Inputs& in, int number) {
    const int parts = Part::count(in);
    const int index = pair() / parts;
    const int part = pair() - index * parts;
    if (number > 0) return {parts, 0, 0, true, true};
    const i64 chunks = (in.length + chunk - 1) / chunk;
    if constexpr (carried) {
      const int all = static_cast<int>(chunks);
      const int each = carried_chunks(in);
      const int begin = index * each;
      if (index > 0 && begin >= all) return {parts, 0, 0, true, true};
      return {part, begin, smaller(each, all - begin), true, all <= each};
    }
    const int first =
        abi::by_gates::first_chunk(chunks, index, segments) - (index > 0 ? lead_chunks : 0);
    const int end = abi::by_gates::first_chunk(chunks, index + 1, segments);
    return {part, first, end - first, true, index + 1 == segments};
  }

  // The pair's line among those of a row.
  struct Cut {
    int from, to;

    KDA_DEVICE explicit Cut(int all) {
      const int length = ceil_div(all, pairs());
      // Pairs from the last on: a piece waits for a pair of a smaller number, which has begun.
      from = smaller((pairs() - 1 - pair()) * length, all);
      to = smaller(from + length, all);
    }
    // What is the line's of a part that begins at a place of the row.
    KDA_DEVICE Piece piece(int part, int begin, int chunks) const {
      const bool ends = begin >= from;
      const bool begins = begin + chunks <= to;
      const int own = (begins ? begin + chunks : to) - (ends ? begin : from);
      return {part, begins ? 0 : chunks - own, own, begins, ends};
    }
  };

  KDA_DEVICE static bool may_cut(const abi::Inputs& in) {
    const int parts = Part::count(in);
    if (parts <= pairs()) return false;
    if constexpr (shape.varlen) {
      return in.sequences <= 32 && pays_for_few(in);
    } else {
      const i64 each = (in.length + chunk - 1) / chunk;
      if (each == 0 || parts * each >= most) return false;
      return pays(static_cast<int>(each) * ceil_div(parts, pairs()),
                  static_cast<int>(parts * each));
    }
  }

  // Whether cuts pay, given the most chunks that a pair has without them, and all: with them pairs
  // read tokens all over memory (an H200, by groups: a chunk takes 1.63 us for 1.48; by teams as
  // long, but packs take up to 3% longer where cuts spare 2% of the chunks).
  KDA_DEVICE static bool pays(int most_without, int all) {
    return most_without > ceil_div(all, pairs()) * 9 / 8;
  }

  // A pack of up to 32 sequences, a lane each in the order of the parts.
  struct Few {
    int chunks, end, period;  // end: of the lane's chunks among those of a head, `period`

    KDA_DEVICE explicit Few(const abi::Inputs& in) : chunks(0) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      if (lane < in.sequences) {
        const Sequence sequence =
            sequence_of<shape.varlen, shape.cu_seqlens_type>(in, in.sequences - 1 - lane);
        chunks = static_cast<int>((sequence.length() + chunk - 1) / chunk);
      }
      end = chunks;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int y = __shfl_up_sync(0xffffffffU, end, step);
        if (lane >= step) end += y;
      }
      period = __shfl_sync(0xffffffffU, end, 31);
    }
  };

  KDA_DEVICE static bool pays_for_few(const abi::Inputs& in) {
    const Few few(in);
    const int heads = in.value_heads * shards;
    if (few.period == 0 || static_cast<i64>(few.period) * heads >= most) return false;
    const int all = few.period * heads;
    if (__reduce_max_sync(0xffffffffU, few.chunks) > ceil_div(all, pairs())) return false;
    // Without cuts, sequence i gives `rest` pairs from i * heads on one head more than the others.
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int all_pairs = pairs();
    const int rest = heads % all_pairs;
    int largest = 0;
#pragma unroll 1
    for (int first = 0; first < all_pairs; first += 32) {
      int sum = 0;
      int start = 0;
#pragma unroll 1
      for (int i = 0; i < in.sequences; ++i) {
        const int own = first + lane - start;  // of the pairs from there on
        const int chunks = __shfl_sync(0xffffffffU, few.chunks, i);
        if ((own < 0 ? own + all_pairs : own) < rest && first + lane < all_pairs) sum += chunks;
        start += rest;
        if (start >= all_pairs) start -= all_pairs;
      }
      largest = larger(largest, sum);
    }
    largest = __reduce_max_sync(0xffffffffU, largest);
    return pays(heads / all_pairs * few.period + largest, all);
  }

  // The row has all sequences of a head, then the next head's, so that lines have as many short
  // ones.
  KDA_DEVICE Piece piece_of_few(const abi::Inputs& in, int number) const {
    const Few few(in);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int heads = in.value_heads * shards;
    const int chunks = few.chunks;
    const int end = few.end;
    const int period = few.period;
    const int all = period * heads;
    const Cut cut(all);
    // The first part, in the row's order, that goes on past a place or stands there.
    const auto part_at = [&](int place) {
      const int within = place % period;
      const bool past = end > within || (chunks == 0 && end >= within);
      const u32 found = __ballot_sync(0xffffffffU, past && lane < in.sequences);
      return place / period * in.sequences + __ffs(static_cast<int>(found)) - 1;
    };
    const auto place_of = [&](int part) {
      return part / in.sequences * period +
             __shfl_sync(0xffffffffU, end - chunks, part % in.sequences);
    };
    const int parts = Part::count(in);
    int over = parts;
    if (cut.to < all) {
      over = part_at(cut.to);
      if (place_of(over) < cut.to) ++over;
    }
    const int part = cut.from < all ? part_at(cut.from) + number : parts;
    if (part >= over) return {parts, 0, 0, true, true};
    const int at = place_of(part);
    const int length = __shfl_sync(0xffffffffU, chunks, part % in.sequences);
    const int own = part % in.sequences * heads + part / in.sequences;  // as Part counts
    return length > 0 ? cut.piece(own, at, length) : Piece{own, 0, 0, true, true};
  }
};

// A group's chunk at hand or next, in its shared memory, as no register is left to hold it; for
// what is loaded as a Tile.
struct alignas(16) Place {
  int rows = 0;  // tokens that exist; 0: there is no such chunk
  int head = 0;
  int token = 0;  // of the first, as a tensor's map counts them
  int n = 0;      // likewise; or the sequence, from which the next long one is sought

  // As a tensor's map counts it.
  KDA_DEVICE int map_n() const { return leaves_short ? 0 : n; }

  // Elements to its first token's rows.
  KDA_DEVICE i64 q_origin(const abi::Inputs& in) const { return origin(in.q, qk_head()); }
  KDA_DEVICE i64 k_origin(const abi::Inputs& in) const { return origin(in.k, qk_head()); }
  KDA_DEVICE i64 g_origin(const abi::Inputs& in) const { return origin(in.g, head); }
  KDA_DEVICE i64 beta_origin(const abi::Inputs& in) const { return origin(in.beta, head); }

 private:
  KDA_DEVICE int qk_head() const { return head / shape.group; }
  KDA_DEVICE i64 origin(const abi::Tensor& tensor, int h) const {
    const i64 of_sequence = shape.varlen ? 0 : n * tensor.sequence;
    return of_sequence + token * tensor.token + h * tensor.head;
  }
};
static_assert(!leaves_short || shape.varlen, "n is the map's where tensors have sequences");

// Where a group stands in the line; one warp of the group, all lanes alike, the first one writes.
struct Stream {
  int number, c;  // of the piece, and the chunk in it
  u32 length;     // chunks of the piece, fewer than 2^26; above, tokens of its last chunk

  KDA_DEVICE int chunks() const { return static_cast<int>(length & (1U << 26) - 1); }
  KDA_DEVICE int rest() const { return static_cast<int>(length >> 26); }

  // At the chunk of that number, counted from the line's first.
  KDA_DEVICE static void begin(Stream& memory, const abi::Inputs& in, const Line& line, int at,
                               Place& next) {
    enter({0, at, 0}, memory, in, line, 0, next);
  }

  // Leaves the next place, and returns it: no lane has to read what the first one writes.  task: of
  // a piece by its number, as it has been noted if it comes after one of at least noted_from chunks
  // (0: none is).
  template <int noted_from, class TaskOf>
  KDA_DEVICE static Place advance(Stream& memory, const abi::Inputs& in, const Line& line, int step,
                                  const Place& here, Place& next, const TaskOf& task) {
    Stream stream = memory;
    stream.c += step;
    const int chunks = stream.chunks();
    if (stream.c >= chunks) [[unlikely]] {
      stream.c -= chunks;
      ++stream.number;
      if constexpr (noted_from > 0) {
        Place place;
        if (chunks >= noted_from && stream.take(task(stream.number), place)) {
          write(stream, memory, place, next);
          return place;
        }
      }
      return enter(stream, memory, in, line, here.n, next);
    }
    Place place = here;  // of the same piece
    place.token += step * chunk;
    if (stream.c + 1 == chunks) place.rows = stream.rest();
    write(stream, memory, place, next);
    return place;
  }

 private:
  // The place in a piece that has been noted, if it has so many chunks.
  template <class Task>
  KDA_DEVICE bool take(const Task& task, Place& place) {
    if (!task.exists) {
      place = Place{};
      return true;
    }
    if (c >= task.chunks) return false;
    length = static_cast<u32>(task.chunks) | static_cast<u32>(task.rest) << 26;
    place = {c + 1 == task.chunks ? task.rest : chunk, task.head, task.token + c * chunk,
             shape.varlen && !leaves_short ? 0 : task.n};
    return true;
  }

  // A later piece's, from the stream's number on, so many chunks from that one's first.  before:
  // the sequence of the piece before.
  KDA_DEVICE static Place enter(Stream stream, Stream& memory, const abi::Inputs& in,
                                const Line& line, int before, Place& next) {
    const Place place = stream.find(in, line, before);
    write(stream, memory, place, next);
    return place;
  }
  KDA_DEVICE static void write(const Stream& stream, Stream& memory, const Place& place,
                               Place& next) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      memory = stream;
      next = place;
    }
    __syncwarp();
  }

  KDA_DEVICE Place find(const abi::Inputs& in, const Line& line, int before) {
#pragma unroll 1
    for (;; ++number) {
      const Piece piece = line.piece(in, number);
      // Of head 0, whose constants are loaded where there is no chunk, too.
      if (piece.part >= line.parts(in)) return {};
      const Part part(in, piece.part, before);
      before = part.n;
      const int all = part.chunks();
      const int own = piece.chunks == Piece::all ? all : piece.chunks;
      if (c < own) {
        const u32 rest = piece.first + own == all
                             ? static_cast<u32>(part.sequence.length() - (all - 1) * i64{chunk})
                             : chunk;
        length = static_cast<u32>(own) | rest << 26;
        const Tile tile = tile_of(part.n, part.head, part.sequence.begin, part.sequence.length(),
                                  piece.first + c);
        return {tile.rows, tile.head,
                static_cast<int>((shape.varlen ? tile.begin : 0) + tile.first),
                shape.varlen && !leaves_short ? 0 : tile.n};
      }
      c -= own;
    }
  }
};

}  // namespace kda::fused
