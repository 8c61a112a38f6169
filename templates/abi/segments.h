// Strategy `segments`: long sequences cut into segments that are walked at once.  The state after a
// segment is linear in the state before it: S_end = T S_begin + S_local, exactly.
#pragma once

#include "abi/chunk_wgmma.h"

namespace kda::abi::segments {

struct Tuning {
  int chunk = 32;             // C, tokens a chunk
  int prepare_threads = 256;  // threads a block of the prepare stage
  int segment = 16;           // chunks a segment; kernels take it as an argument
  int state_warpgroups = 2;   // warpgroups a block of the states stage
  int warpgroups = 1;         // warpgroups a block of the outputs stage
  int load_stages = 3;        // chunks in flight in both
};

constexpr Tunable<Tuning> tunables[] = {
    {"chunk", &Tuning::chunk, {16, 32, 64}, "tokens a chunk"},
    {"prepare_threads",
     &Tuning::prepare_threads,
     {64, 128, 256, 512},
     "threads a block, prepare stage"},
    {"segment", &Tuning::segment, {1, 2, 4, 8, 16, 32, 64, 128, 256}, "chunks a segment"},
    {"state_warpgroups",
     &Tuning::state_warpgroups,
     {1, 2},
     "warpgroups a block, states stage: 64 V or K columns each"},
    {"warpgroups",
     &Tuning::warpgroups,
     {1, 2},
     "warpgroups a block, outputs stage: 64 V columns each"},
    {"load_stages", &Tuning::load_stages, {1, 2, 3, 4, 5, 6}, "chunks in flight"},
};

// What the two stages that walk chunks are specialised on.
constexpr chunk_wgmma::Tuning states_chain(const Tuning& tuning) {
  return {tuning.chunk, tuning.prepare_threads, tuning.state_warpgroups, tuning.load_stages};
}
constexpr chunk_wgmma::Tuning outputs_chain(const Tuning& tuning) {
  return {tuning.chunk, tuning.prepare_threads, tuning.warpgroups, tuning.load_stages};
}

// Blocks of the states stage that share a segment and value head: of V columns, then of the K
// columns that find T.
constexpr int value_units(const Shape& shape, const chunk_wgmma::Tuning& tuning) {
  return (shape.value_dim + 64 * tuning.warpgroups - 1) / (64 * tuning.warpgroups);
}
constexpr int key_units(const Shape& shape, const chunk_wgmma::Tuning& tuning) {
  const int columns = 64 * tuning.warpgroups;
  return (chunk::factor_keys(shape) + columns - 1) / columns;
}

// Of a head's state in memory: 64 V columns a tile.
constexpr int value_tiles(const Shape& shape) { return (shape.value_dim + 63) / 64; }
constexpr int tile_bytes(const Shape& shape) { return 64 * chunk::factor_keys(shape) * 4; }
constexpr int transition_bytes(const Shape& shape) {
  return chunk::factor_keys(shape) * chunk::factor_keys(shape) * 2;
}
constexpr int flags = 2;  // of a transition, one for each 64 columns of T

// Dynamic shared memory.
constexpr int states_shared_bytes(const Shape& shape, const chunk_wgmma::Tuning& tuning) {
  return chunk_wgmma::chain_shared_bytes(shape, tuning, false) + 16;
}
constexpr int combine_stages = 2;
constexpr int combine_stage_bytes(const Shape& shape) {
  return 2 * transition_bytes(shape) + tile_bytes(shape);
}
constexpr int combine_shared_bytes(const Shape& shape) {
  return combine_stages * (combine_stage_bytes(shape) + 32);
}

// What segments leave for each other.  Segment slots are numbered as chunk slots are
// (base/varlen.cuh), with a segment's tokens for a chunk's.
struct Segments {
  // [slots, HV, value_tiles] of 64 V columns of S^T in f32, in the order of the accumulators: the
  // states stage's S_local, then the combine stage's state after the segment.  The last segment's
  // holds the sequence's initial state instead.
  float* states = nullptr;
  // [slots, HV] images of T^T [K, K] in bf16, and of what rounding lost.
  void* transition = nullptr;
  void* transition_rest = nullptr;
  int* alive = nullptr;  // [slots, HV, flags]: 0 where that part of T is nothing
  int chunks = 16;       // a segment
};

struct Args {
  chunk::RecurrenceArgs chain;
  Segments segments;
};

}  // namespace kda::abi::segments
