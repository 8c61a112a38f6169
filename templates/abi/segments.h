// Strategy `segments`: long sequences cut into segments that are walked at once.  The state after a
// segment, and each token's output, are linear in the state before it, exactly:
//   S_end = T S_begin + S_local;   o = o_local + q~ S_begin
#pragma once

#include "abi/chunk_wgmma.h"

namespace kda::abi::segments {

struct Tuning {
  int chunk = 32;             // C, tokens a chunk
  int prepare_threads = 256;  // threads a block of the prepare stage
  int segment = 16;           // chunks a segment; kernels take it as an argument
  int warpgroups = 2;         // warpgroups a block of the walk stage, 64 columns each
  int load_stages = 3;        // chunks in flight in the walk stage
  int segments = 1;           // of each sequence, walked beside prepare; 1: of `segment` chunks
};

constexpr Tunable<Tuning> tunables[] = {
    {"chunk", &Tuning::chunk, {16, 32, 64}, "tokens a chunk"},
    {"prepare_threads",
     &Tuning::prepare_threads,
     {64, 128, 256, 512},
     "threads a block, prepare stage"},
    {"segment",
     &Tuning::segment,
     {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024},
     "chunks a segment"},
    {"warpgroups",
     &Tuning::warpgroups,
     {1, 2},
     "warpgroups a block, walk stage: 2 have 64 V and 64 K columns"},
    {"load_stages", &Tuning::load_stages, {1, 2, 3, 4, 5, 6, 7}, "chunks in flight, walk stage"},
    {"segments",
     &Tuning::segments,
     {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20},
     "above 1: so many alike of each sequence, walked beside prepare, into which the states before "
     "them are carried; 1: of `segment` chunks, walked after prepare"},
};

// Whether segments are walked while factors are made.
constexpr bool at_once(const Tuning& tuning) { return tuning.segments > 1; }

// Kernels divide by the tokens of `segment` chunks by a shift (base/segment.cuh).
constexpr bool segments_are_powers_of_two() {
  for (const Tunable<Tuning>& row : tunables) {
    for (const int value : row.values) {
      if (row.field == &Tuning::segment && (value & (value - 1)) != 0) return false;
    }
  }
  return true;
}
static_assert(segments_are_powers_of_two());

// What the walk stage's chains are.
constexpr chunk_wgmma::Tuning chain_of(const Tuning& tuning) {
  return {.chunk = tuning.chunk,
          .prepare_threads = tuning.prepare_threads,
          .warpgroups = tuning.warpgroups,
          .load_stages = tuning.load_stages,
          .stages_at_once = at_once(tuning) ? 2 : 1};
}

// What the walk and the carry stage are specialised on, and of `chunk` and `gives_up` the correct
// stage.
struct KernelTuning {
  int chunk = 32;
  int warpgroups = 1;
  int load_stages = 4;
  int gives_up = 0;        // 1: T may be given up early (GivenUp)
  int stages_at_once = 1;  // 2: prepare runs beside
  int carried = 0;         // 1: V columns alone, in segments of any length (Carried)
};
constexpr chunk_wgmma::Tuning chain_of(const KernelTuning& tuning) {
  return {.chunk = tuning.chunk,
          .warpgroups = tuning.warpgroups,
          .load_stages = tuning.load_stages,
          .stages_at_once = tuning.stages_at_once};
}

// What chains of the walk stage are told of a problem: checkpoints lie between segments.
constexpr Shape in_chains(Shape shape) {
  shape.checkpoints = false;
  return shape;
}

// Tiles of 64 columns: V columns, and the K columns that find T and q~.
constexpr int value_tiles(const Shape& shape) { return (shape.value_dim + 63) / 64; }
constexpr int key_tiles(const Shape& shape) { return chunk::factor_keys(shape) / 64; }

// Blocks of the walk stage that share a segment and value head: of two warpgroups each with a tile
// of V and one of K columns, else a block a tile.
constexpr int units(const Shape& shape, int warpgroups) {
  const int values = value_tiles(shape);
  const int keys = key_tiles(shape);
  return warpgroups == 1 ? values + keys : (values < keys ? keys : values);
}

// And where there are V columns alone: a warpgroup a tile.
constexpr int value_units(const Shape& shape, int warpgroups) {
  return (value_tiles(shape) + warpgroups - 1) / warpgroups;
}

// In memory.
constexpr int tile_bytes(const Shape& shape) { return 64 * chunk::factor_keys(shape) * 4; }
constexpr int transition_bytes(const Shape& shape) {
  return chunk::factor_keys(shape) * chunk::factor_keys(shape) * 2;
}
// A chunk's q~ [C, K] in memory: an image of panels of 64 channels (tile/shared.cuh).
constexpr int query_bytes(const Shape& shape, int chunk) {
  return chunk * chunk::factor_keys(shape) * 2;
}

// Dynamic shared memory of the walk stage: a chain's, and a word by which the consumers of T end
// it.
constexpr int walk_shared_bytes(const Shape& shape, const chunk_wgmma::Tuning& tuning) {
  return chunk_wgmma::chain_shared_bytes(in_chains(shape), tuning) + 16;
}

// And of the correct stage: what two steps of the state read, T, its rest and S_local each, or in
// the place of one or both a ring of q~; then rows of o of as many chunks, and barriers.
constexpr int step_bytes(const Shape& shape) {
  return 2 * transition_bytes(shape) + tile_bytes(shape);
}
constexpr int output_bytes(int chunk) {
  return chunk_wgmma::value_bytes({.chunk = chunk, .warpgroups = 1});
}
constexpr int correct_stages(const Shape& shape, int chunk) {
  const int queries = 2 * step_bytes(shape) / query_bytes(shape, chunk);
  const int rows =
      (chunk_wgmma::shared_limit - 2 * step_bytes(shape) - 64) / (output_bytes(chunk) + 16);
  const int fit = queries < rows ? queries : rows;
  return fit < 8 ? fit : 8;
}
constexpr int correct_shared_bytes(const Shape& shape, int chunk) {
  return 2 * step_bytes(shape) + correct_stages(shape, chunk) * (output_bytes(chunk) + 16) + 64;
}

// What is known of 64 columns of T after the walk.
struct Transition {
  int chunks;  // of the segment's first chunks so many have a q~
  int alive;   // 0: T is nothing at the segment's end
};

// What segments leave for each other.  Segment slots are numbered as chunk slots are
// (base/varlen.cuh), with a segment's tokens for a chunk's.
struct Segments {
  // [slots, HV, value_tiles] of 64 V columns of S^T in f32, in the order of the accumulators:
  // S_local, of a first segment the state after it.
  float* states = nullptr;
  // [slots, HV] images of T^T [K, K] in bf16, and of what rounding lost; of the carry stage
  // [slots, HV, value_tiles], each block's own.
  void* transition = nullptr;
  void* transition_rest = nullptr;
  Transition* known = nullptr;  // [slots, HV, 2], for each 64 columns of T
  // [slots, HV, value_tiles, 4] 1 where those 16 columns of S_local have no NaN or infinity.
  signed char* finite = nullptr;
  // [chunk slots, HV] images of q~ [C, K], qkv_type, times the scale; of f16 times query_scale.
  void* queries = nullptr;
  int chunks = 16;  // a segment
  int parts = 1;    // blocks that share a (sequence, value head, tile) in the correct stage
};

// Giving T up early: at every so many chunks, counted from a segment's end, the walk gives up 64
// columns of T whose Frobenius norm is below `small`, and notes how long S_local is. The correct
// stage, which knows S_begin, looks whether what those columns make of it is little beside S_local
// then: each V column at most `most_lost` of it, and each key channel, as gates clear channels and
// keep others, `most_lost_of_channel`, a quarter of what a bf16 may lose.  Where it is more both
// stages go again, and give nothing up before it is nothing.
constexpr int chunks_a_look = 16;
constexpr float small = 0x1p-10F;
constexpr float most_lost = 0x1p-11F;
constexpr float most_lost_of_channel = 0x1p-10F;

// What is noted of a tile of S_local at a look: squared lengths of its 64 V columns, then of its
// key channels by pairs of V columns, in bf16 (sm90/segments/looks.cuh).
constexpr int noted_floats(const Shape& shape) { return 64 + 16 * chunk::factor_keys(shape); }

// Whether what is given up, or taken for nothing, would never have grown: keys of length 1, steps
// of at most 2; of steps that may be 2 keys that rounding cannot have made longer.
constexpr bool never_grows(const Shape& shape) {
  const bool beta_at_most_one =
      shape.beta_is_logit ? !shape.allow_neg_eigval : shape.beta_at_most_one;
  return shape.l2norm_qk ? shape.beta_is_logit || shape.beta_at_most_one
                         : shape.qk_normalized && beta_at_most_one;
}

// q~ of f16 is stored times this, and not times the run's scale as that of bf16: it becomes as
// small as T.
constexpr float query_scale = 4096.0F;

struct GivenUp {
  int* looks = nullptr;  // [slots, HV, 2] at which those columns of T were given up; -1: at none
  // [slots, HV, value_tiles, chunks a segment / chunks_a_look, noted_floats]
  float* lengths = nullptr;
  unsigned* unsure = nullptr;  // not 0 where more would be lost than may be
  bool again = false;          // the kernel is at work where that is so
};

// Without T: what the state before a segment becomes in it, the same chain with v = 0, adds its own
// to o, and ends where each V column and key channel is as little beside S_local's.  Looks at
// that come after so many chunks: strong gates forget in one or two, weak ones in some 50 to 110 of
// 32 tokens.
constexpr bool is_carry_look(int gone) {
  return gone == 1 || gone == 2 || gone == 4 || (gone <= 128 && gone % 8 == 0) || gone % 32 == 0;
}
constexpr int next_carry_look(int gone) {
  if (gone < 4) return gone == 0 ? 1 : (gone == 1 ? 2 : 4);
  return gone < 128 ? gone / 8 * 8 + 8 : gone / 32 * 32 + 32;
}
constexpr int carry_look_at(int gone) {
  return gone < 8 ? gone / 2 : (gone <= 128 ? gone / 8 + 2 : gone / 32 + 14);
}
// Of a segment of so many chunks, at most.
constexpr int carry_looks(int chunks) { return chunks / 32 + 19; }
static_assert(carry_look_at(1) == 0 && carry_look_at(4) == 2 && carry_look_at(8) == 3);
static_assert(carry_look_at(128) < carry_looks(128) && carry_look_at(4096) < carry_looks(4096));
static_assert(carry_look_at(160) == carry_look_at(128) + 1);

// What that leaves and reads.
struct Carried {
  float* states = nullptr;   // as Segments::states: what is left of it at the segment's end
  float* lengths = nullptr;  // [slots, HV, value_tiles, carry_looks, noted_floats]
  unsigned* ends = nullptr;  // [slots, HV, value_tiles]
  // Of each later segment's factors those of so many first chunks alone are there, of unscaled o
  // (abi::fused::Kept); 0: all, by chunk slots.
  int kept = 0;
};
// Of Carried::ends.  unknown_little_kept: before anything is told, where T has come to nothing in
// the segment's first chunks, and of no more than these factors are there; first_left: of S_local
// before the segment, if not of all.
constexpr unsigned unknown = 0, unknown_little_kept = 1, first_left_nothing = 2,
                   first_left_something = 3, nothing_left = 4, something_left = 5;
// Besides, from the first on: whether more than so much of S_local's length was left, which is not
// soon forgotten in later segments either.
constexpr unsigned much_left = 8;
constexpr float much = 0x1p-9F;

struct Args {
  chunk::RecurrenceArgs chain;
  Segments segments;
  chunk_wgmma::RowMaps rows;  // of the walk stage, and of carry, whose v is o
  GivenUp given_up;           // where kernels give T up early
  Carried carried;
};

}  // namespace kda::abi::segments
