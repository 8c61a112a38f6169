// Strategy `chunk_wgmma`: strategy chunk's prepare stage, and a recurrence on Hopper's warpgroup
// products.
#pragma once

#include "abi/chunk.h"
#include "abi/state_box.h"
#include "abi/tensor_map.h"

namespace kda::abi::chunk_wgmma {

struct Tuning {
  int chunk = 32;             // C, tokens a chunk
  int prepare_threads = 256;  // threads a block of the prepare stage
  int warpgroups = 1;         // warpgroups a block of the recurrence
  int load_stages = 4;        // chunks in flight in the recurrence
  int stages_at_once = 1;     // 2: prepare beside the recurrence, on multiprocessors of its own
  int short_tokens = 1;       // sequences of up to so many go token by token, a stage of their own
  int columns = 64;           // V columns a warpgroup; of 32 half of each product is empty
  int preparers = 100;        // percent of the multiprocessors beside the recurrence that prepare
  int short_by = 1;           // 2: short sequences' states come by rings, where nobody prepares
};

constexpr Tunable<Tuning> tunables[] = {
    {"chunk", &Tuning::chunk, {16, 32, 64}, "tokens a chunk"},
    {"prepare_threads",
     &Tuning::prepare_threads,
     {64, 128, 256, 512},
     "threads a block, prepare stage"},
    {"warpgroups", &Tuning::warpgroups, {1, 2}, "warpgroups a block, recurrence stage"},
    {"load_stages", &Tuning::load_stages, {1, 2, 3, 4, 5, 6, 7}, "chunks in flight"},
    {"stages_at_once",
     &Tuning::stages_at_once,
     {1, 2},
     "2: prepare beside the recurrence, on multiprocessors of its own"},
    {"short_tokens",
     &Tuning::short_tokens,
     {1, 8, 16, 32},
     "varlen: sequences of up to so many tokens are a third stage's, beside the recurrence; 1: "
     "none"},
    {"columns",
     &Tuning::columns,
     {32, 64},
     "V columns a warpgroup; 32, with checkpoints: twice the blocks to send them"},
    {"preparers",
     &Tuning::preparers,
     {64, 72, 86, 100},
     "percent of the multiprocessors beside the recurrence that prepare, not to be far ahead of "
     "it"},
    {"short_by",
     &Tuning::short_by,
     {1, 2},
     "2: short sequences' states by rings, on multiprocessors of their own; 1: by registers, "
     "wherever there is room"},
};

// Rows of v in shared memory, a panel of 64 columns a warpgroup (tile/shared.cuh), where a swizzle
// pattern starts.
constexpr int value_bytes(const Tuning& tuning) {
  return chunk::tile_bytes(tuning.chunk, 64 * tuning.warpgroups, 2);
}

// Where a chunk's parts lie in shared memory, in bytes: its image, rows of v.
struct Slot {
  chunk::Image image;
  int v, bytes;
};

constexpr Slot slot(const Shape& shape, const Tuning& tuning) {
  const chunk::Image image = chunk::image(shape, tuning.chunk);
  const int v = (image.bytes + 1023) / 1024 * 1024;
  return {image, v, (v + value_bytes(tuning) + 1023) / 1024 * 1024};
}

// K up to which a state leaves registers for what comes ahead of its turn, f16's units, w and u,
// and checkpoints of 16 bits.
constexpr int most_keys_in_room = 192;

// Whether checkpoints leave through shared memory; past 128 channels no register is left for places
// there.
constexpr bool copies_checkpoints(const Shape& shape) {
  return shape.checkpoints && state_box::serves(shape) && shape.key_dim <= 128;
}

// V columns a block.
constexpr int columns(const Tuning& tuning) { return tuning.warpgroups * tuning.columns; }

// Those of a state.
constexpr int checkpoint_bytes(const Shape& shape, const Tuning& tuning) {
  return columns(tuning) / state_box::rows * state_box::bytes(shape);
}

// A ring of chunks, a pair of barriers a slot.
constexpr int ring_bytes(const Shape& shape, const Tuning& tuning) {
  return tuning.load_stages * (slot(shape, tuning).bytes + 16);
}

// Shared memory that a block can have on sm_90.
constexpr int shared_limit = 227 * 1024;

// Where a chain's checkpoints lie in its shared memory: past the ring and a pair of barriers each.
constexpr int checkpoints_from(const Shape& shape, const Tuning& tuning, int buffers) {
  return (ring_bytes(shape, tuning) + 16 * buffers + state_box::align - 1) / state_box::align *
         state_box::align;
}

// Checkpoints in shared memory at once: two, so that one can be left while another is copied out,
// where the ring leaves them room.
constexpr int checkpoint_buffers(const Shape& shape, const Tuning& tuning) {
  const int two = checkpoints_from(shape, tuning, 2) + 2 * checkpoint_bytes(shape, tuning);
  return two <= shared_limit ? 2 : 1;
}

// Dynamic shared memory of a chain.
constexpr int chain_shared_bytes(const Shape& shape, const Tuning& tuning) {
  if (!copies_checkpoints(shape)) return ring_bytes(shape, tuning);
  const int buffers = checkpoint_buffers(shape, tuning);
  return checkpoints_from(shape, tuning, buffers) + buffers * checkpoint_bytes(shape, tuning);
}

// Blocks of a chain that a multiprocessor holds at once.  Two have room where their rings are short
// (each takes 1 KB more than it asks for).  They have 168 registers a thread, or 128 with a warp
// for checkpoints: f16's units, columns that only some lanes have, K > 128 and K = 128 with
// checkpoints want more.
constexpr int resident_blocks(const Shape& shape, const Tuning& tuning) {
  const int two = 2 * (chain_shared_bytes(shape, tuning) + 1024);
  const bool small = tuning.warpgroups == 1 && tuning.chunk < 64 && shape.qkv_type == DType::bf16 &&
                     shape.value_dim % 64 == 0 && shape.key_dim <= (shape.checkpoints ? 64 : 128);
  return tuning.stages_at_once == 1 && small && two <= shared_limit + 1024 ? 2 : 1;
}

// Warps that move rows of v and o.
constexpr int row_warps(const Shape& shape, const Tuning& tuning) {
  return resident_blocks(shape, tuning) > 1 ? 1 : 2;
}

// Threads a block: the warpgroups, a warp that feeds factors, those that move rows and perhaps one
// that copies checkpoints.
constexpr int chain_threads(const Shape& shape, const Tuning& tuning) {
  const int warps = 1 + row_warps(shape, tuning) + (copies_checkpoints(shape) ? 1 : 0);
  return 128 * tuning.warpgroups + 32 * warps;
}

// Of a run's v and o: 64 columns a slab, boxes of a chunk's tokens.
struct RowMaps {
  TensorMap v, o;
  bool present = false;  // whether their layouts can have them
};
// V must be whole slabs.  In packs, where the last rows of a sequence go by hand, the thread that
// asks would be the slowest (H = 16 135 us for 126); and it brings v a chunk later, so that a short
// ring is shorter by one (4 heads of 1024 tokens by a ring of four 24.3 us for 21.7).
constexpr bool maps_rows(const Shape& shape, const Tuning& tuning) {
  return shape.value_dim % 64 == 0 && tuning.columns == 64 && !shape.varlen &&
         tuning.load_stages > 4;
}

// Of the recurrence.
struct Args {
  chunk::RecurrenceArgs chain;
  RowMaps rows;
  state_box::Pool checkpoints;  // of chain.out's pool, if copies_checkpoints
};

}  // namespace kda::abi::chunk_wgmma
