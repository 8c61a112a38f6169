// Strategy `chunk_wgmma`: strategy chunk's prepare stage, and a recurrence on Hopper's warpgroup
// products.
#pragma once

#include "abi/chunk.h"

namespace kda::abi::chunk_wgmma {

struct Tuning {
  int chunk = 32;             // C, tokens a chunk
  int prepare_threads = 256;  // threads a block of the prepare stage
  int warpgroups = 1;         // warpgroups a block of the recurrence, 64 V columns each
  int load_stages = 12;       // factor tiles in flight in the recurrence
};

constexpr Tunable<Tuning> tunables[] = {
    {"chunk", &Tuning::chunk, {16, 32, 64}, "tokens a chunk"},
    {"prepare_threads",
     &Tuning::prepare_threads,
     {64, 128, 256, 512},
     "threads a block, prepare stage"},
    {"warpgroups",
     &Tuning::warpgroups,
     {1, 2},
     "warpgroups a block, recurrence stage: 64 V columns each"},
    {"load_stages", &Tuning::load_stages, {3, 4, 6, 8, 12}, "factor tiles in flight"},
};

// A row of v in shared memory, padded so that reading a column of units meets every bank.
constexpr int value_row_bytes(const Tuning& tuning) { return tuning.warpgroups * 128 + 16; }

constexpr int slot_bytes(const Shape& shape, const Tuning& tuning) {
  const int keys = chunk::factor_keys(shape);
  const int values = tuning.chunk * value_row_bytes(tuning);
  const int square = chunk::tile_bytes(tuning.chunk, tuning.chunk, 2);
  int side = values > square ? values : square;
  side = side > keys * 4 ? side : keys * 4;
  return chunk::tile_bytes(tuning.chunk, keys, 2) + (side + 1023) / 1024 * 1024;
}

// Dynamic shared memory of the recurrence: the ring and a pair of barriers a slot.
constexpr int recurrence_shared_bytes(const Shape& shape, const Tuning& tuning) {
  return tuning.load_stages * (slot_bytes(shape, tuning) + 16);
}

}  // namespace kda::abi::chunk_wgmma
