// Strategy `chunk`: token-parallel prepare, then head-parallel recurrence over the chunks.
#pragma once

#include "abi/shape.h"
#include "abi/tensors.h"
#include "abi/tunable.h"

namespace kda::abi::chunk {

struct Tuning {
  int chunk = 32;             // C, tokens a chunk
  int prepare_threads = 128;  // threads a block of the prepare stage
  int threads = 128;          // threads a block of the recurrence stage
  int shards = 2;             // CTAs that share the V columns of one head
  int load_stages = 3;        // tiles [C, K] in flight in the recurrence
  int key_warps = 1;          // warps that share the key channels of the same V columns there
};

constexpr Tunable<Tuning> tunables[] = {
    {"chunk", &Tuning::chunk, {16, 32, 64}, "tokens a chunk"},
    {"prepare_threads",
     &Tuning::prepare_threads,
     {64, 128, 256, 512},
     "threads a block, prepare stage"},
    {"threads", &Tuning::threads, {32, 64, 128, 256}, "threads a block, recurrence stage"},
    {"shards", &Tuning::shards, {1, 2, 4, 8, 16}, "CTAs that share one head's V columns"},
    {"load_stages",
     &Tuning::load_stages,
     {2, 3, 4, 6},
     "factor tiles in flight, or chunks where key_warps is not 1"},
    {"key_warps",
     &Tuning::key_warps,
     {1, 2, 4, 8},
     "warps that share the key channels of the same V columns, recurrence stage"},
};

// What the prepare stage is specialised on: it serves every recurrence of the same chunk.
struct PrepareTuning {
  int chunk = 32;
  int prepare_threads = 256;
  int short_tokens = 1;  // sequences of up to so many are left to another stage; 1: none
};

// Whether a step of the delta rule, beta |k|^2, may exceed 1.  Then inverses of nearly equal keys
// cancel, and their factors are formed from split products and Ak is kept in two terms; below 1
// neither is needed.
constexpr bool steps_may_exceed_one(const Shape& shape) {
  const bool beta_may = shape.beta_is_logit ? shape.allow_neg_eigval : !shape.beta_at_most_one;
  return beta_may || !(shape.l2norm_qk || shape.qk_normalized);
}

// The longest row of k that comes normalised (Shape::qk_normalized): one, as bf16 rounds it.
constexpr float most_key = 1.0F + 1.0F / 128;

// Whether Ak is stored as a rounded image and a second one of what rounding lost.
constexpr bool writes_twice(const Shape& shape) {
  return steps_may_exceed_one(shape) && shape.qkv_type != DType::f32;
}

// Factor tiles a chunk: Kd, Qd, Ak and perhaps Ak's rest.
constexpr int factor_parts(const Shape& shape) { return writes_twice(shape) ? 4 : 3; }

// Ak and Aq are stored times this, so that a tiny beta does not make them subnormal in f16.  Both
// stay below 8 where keys have unit length; of other keys Ak has room up to 255, which steps that
// do not make the state grow without bound are far from.
constexpr float writer_scale(const Shape& shape) {
  if (shape.qkv_type != DType::f16) return 1.0F;
  return shape.l2norm_qk || shape.qk_normalized ? 1024.0F : 256.0F;
}

// V columns a block of the recurrence holds: whole 16s for each of its warps, or of those that
// share key channels.
constexpr int block_columns(const Shape& shape, const Tuning& tuning) {
  const int whole = tuning.threads / 2 / tuning.key_warps;
  const int share = (shape.value_dim + tuning.shards - 1) / tuning.shards;
  return (share + whole - 1) / whole * whole;
}

// Bytes of a tile (tile/shared.cuh), and of its image in global memory: rows padded to a whole
// number of panels, which are 128 bytes wide or as narrow as one row of a 16-bit tile.
constexpr int tile_bytes(int rows, int columns, int element_bytes) {
  const int row = element_bytes == 2 && columns <= 16   ? 32
                  : element_bytes == 2 && columns <= 32 ? 64
                                                        : 128;
  return rows * ((columns * element_bytes + row - 1) / row * row);
}

// Key channels with room in a factor's image.
constexpr int factor_keys(const Shape& shape) {
  const int keys = (shape.key_dim + 15) / 16 * 16;
  const int bytes = bytes_of(shape.qkv_type);
  return tile_bytes(1, keys, bytes) / bytes;
}

// Dynamic shared memory of the prepare stage; the kernel asserts that it is what it uses.
constexpr int prepare_shared_bytes(const Shape& shape, const PrepareTuning& tuning) {
  const int groups = tuning.chunk / 8;
  const int slab = 2 * tuning.prepare_threads / groups;
  const int keys = (shape.key_dim + 15) / 16 * 16;
  const int scores = 3 * tile_bytes(tuning.chunk, slab, 4);
  const int matrices = 3 * tile_bytes(tuning.chunk, tuning.chunk, 4);
  const int small = (groups * slab + (3 + 2 * 16) * tuning.chunk) * 4;
  return (small + 127) / 128 * 128 + tile_bytes(tuning.chunk, keys, 4) +
         (scores > matrices ? scores : matrices);
}

// The folded factors of one chunk and value head (src/README.md, Chunks and their factors): byte
// offsets of tiles (tile/shared.cuh; columns past K or C are zero, as are tail rows), each where a
// swizzle pattern starts; nothing is written to what lies between.  What only outputs need comes
// first, so that a chain brings what it reads by one copy.
struct Image {
  int qd;       // [C, K]  q * exp(P), not scaled; in strategy fused, by slabs, times the scale
  int aq;       // [C, C]  Aqk M diag(beta), likewise
  int kd;       // [C, K]  k * exp(P)
  int ak;       // [C, K]  (M diag(beta))^T (k * exp(Pn - P))
  int ak_rest;  // [C, K]  what rounding Ak lost; if writes_twice
  int decay;    // [factor_keys], f32  exp(Pn), in the order of tile/decay.cuh
  int bytes;
};
constexpr Image image(const Shape& shape, int chunk) {
  const int element = bytes_of(shape.qkv_type);
  const int factor = (tile_bytes(chunk, factor_keys(shape), element) + 1023) / 1024 * 1024;
  const int square = (tile_bytes(chunk, chunk, element) + 1023) / 1024 * 1024;
  const int kd = factor + square;
  const int rest = kd + 2 * factor;
  const int decay = writes_twice(shape) ? rest + factor : rest;
  return {0, factor, kd, kd + factor, rest, decay, decay + factor_keys(shape) * 4};
}

// Key channels of one of key_warps: whole 16s, the last one's perhaps past K.
constexpr int keys_of_warp(const Shape& shape, const Tuning& tuning) {
  const int tiles = (shape.key_dim + 15) / 16;
  return (tiles + tuning.key_warps - 1) / tuning.key_warps * 16;
}

// Whether each of key_warps has some, and a factor's image room for all that they reach.
constexpr bool shares_keys(const Shape& shape, const Tuning& tuning) {
  const int own = keys_of_warp(shape, tuning);
  return (tuning.key_warps - 1) * own < shape.key_dim &&
         tuning.key_warps * own <= factor_keys(shape);
}

// A slot of the recurrence's ring: a factor, and beside it v, Aq or the decay; of warps that share
// key channels a chunk's whole image and v.  Slots and tiles start where a swizzle pattern does.
struct Slot {
  int side;  // where what is not a factor, or image, lies
  int bytes;
};
constexpr Slot slot(const Shape& shape, const Tuning& tuning) {
  const int bytes = bytes_of(shape.qkv_type);
  const int values = tile_bytes(tuning.chunk, block_columns(shape, tuning), bytes);
  if (tuning.key_warps > 1) {
    const int side = (image(shape, tuning.chunk).bytes + 1023) / 1024 * 1024;
    return {side, side + (values + 1023) / 1024 * 1024};
  }
  const int keys = (shape.key_dim + 15) / 16 * 16;
  const int factor = tile_bytes(tuning.chunk, keys, bytes);
  const int square = tile_bytes(tuning.chunk, tuning.chunk, bytes);
  const int decay = factor_keys(shape) * 4;
  int side = values > square ? values : square;
  side = side > decay ? side : decay;
  return {factor, factor + (side + 1023) / 1024 * 1024};
}

// Where the warps that share key channels add up R and O, each its part of both, in f32.
constexpr int parts_bytes(const Shape& shape, const Tuning& tuning) {
  if (tuning.key_warps == 1) return 0;
  return 2 * tuning.chunk * block_columns(shape, tuning) * tuning.key_warps * 4;
}

// Dynamic shared memory of the recurrence.
constexpr int recurrence_shared_bytes(const Shape& shape, const Tuning& tuning) {
  return tuning.load_stages * slot(shape, tuning).bytes + parts_bytes(shape, tuning);
}

// The factors of a run.  Chunk slots are numbered as base/varlen.cuh says.
struct Factors {
  char* images = nullptr;  // [slots, HV] of Image::bytes

  // [HV, slots] 1 where a chunk's factors have been written: for a recurrence that runs beside the
  // prepare stage.  Null where it comes after.
  unsigned* ready = nullptr;
  long long slots = 0;
};

// How groups walk (sm90/factors/walk.cuh): from a tile to the next so many heads, and carried from
// there sequences and chunks, beside a stage of short sequences chunks alone; and whether they look
// ahead.
struct Walk {
  int heads = 0;
  int sequences = 0;
  int chunks = 0;
  int ahead = 1;  // 0: a tile past a group's second is not brought into the L2 before its turn
};

struct PrepareArgs {
  Inputs in;
  Factors factors;
  Walk walk;
  int lets_begin = 0;  // 1: the next stage may begin once all of prepare_group's blocks have
  void* w = nullptr;   // [N, HV, T / N / C rounded up, C, K], qkv_type; Shape::wy_tensors, or null
  void* u = nullptr;   // the same with V
  // Where groups take a dense run's segments abreast: chunks a segment, and from a tile to the next
  // so many segments, before sequences.
  int segment = 0;
  int segments = 0;
};

struct RecurrenceArgs {
  Inputs in;
  Outputs out;
  Factors factors;
};

}  // namespace kda::abi::chunk
