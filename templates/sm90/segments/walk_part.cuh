// What a block of the walk stage works on: V columns of a segment and value head, columns of T, or
// both.
#pragma once

#include "abi/chunk_wgmma.h"
#include "abi/segments.h"
#include "abi/shape.h"
#include "base/segment.cuh"
#include "base/types.cuh"
#include "base/varlen.cuh"
#include "ptx/special_registers.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/segments/tiles.cuh"
#include "tile/shared.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::segments::KernelTuning planned = KDA_TUNING;
constexpr abi::chunk_wgmma::Tuning tune = abi::segments::chain_of(planned);
constexpr bool gives_up = planned.gives_up != 0;
constexpr bool carried = planned.carried != 0;

using Tokens = SegmentTokens<!carried>;  // a segment
using Chain = chunk_wgmma::Chain<abi::segments::in_chains(shape), tune>;
using Tiles = segments::Tiles<shape>;
using chunk_wgmma::Task;

constexpr int chunk = Chain::chunk;
constexpr int keys = Chain::keys;

using QueryImage = tile::Shared<shape.qkv_type, chunk, keys>;  // of q~
using Image = tile::Shared<abi::DType::bf16, keys, keys>;      // of T^T
static_assert(QueryImage::bytes == abi::segments::query_bytes(shape, chunk));

// What a block works on.
struct Part {
  int unit, head;
  i64 slot;  // of its segment
  Segment segment;

  // By the block's index as it stands there: a chain leaves no register to hold this across it.
  // V columns come first where they have units of their own.  Units of a segment and head stand
  // side by side: the L2 serves neighbours, who read the same factors, in fewer clocks.
  static KDA_DEVICE Part here(const abi::segments::Args& args) {
    constexpr u32 units = carried ? abi::segments::value_units(shape, tune.warpgroups)
                                  : abi::segments::units(shape, tune.warpgroups);
    const u32 heads = args.chain.in.value_heads;
    const u32 block = ptx::block_now() / units;
    const i64 slot = block / heads;
    return {static_cast<int>(blockIdx.x % units), static_cast<int>(block % heads), slot,
            segment_at<shape>(args.chain.in, slot, Tokens(args.segments.chunks * chunk))};
  }

  KDA_DEVICE i64 head_slot(const abi::Inputs& in) const { return slot * in.value_heads + head; }
  // The block's first of all segments', heads' and V's tiles; there are fewer than blocks.
  KDA_DEVICE u32 tile(const abi::Inputs& in) const {
    return static_cast<u32>(head_slot(in)) * Tiles::count + static_cast<u32>(value_tile());
  }

  // Tiles of 64 columns of its own, the first of V's where each warpgroup has one, and T's; -1:
  // none.
  KDA_DEVICE int value_tile() const {
    if constexpr (carried) return unit * tune.warpgroups;
    return unit < Tiles::count ? unit : -1;
  }
  KDA_DEVICE int key_tile() const {
    if constexpr (carried) return -1;
    const int tile = tune.warpgroups == 2 ? unit : unit - Tiles::count;
    return segment.index > 0 && tile < keys / 64 ? tile : -1;
  }
  KDA_DEVICE bool is_idle() const {
    return !segment.exists() || (value_tile() < 0 && key_tile() < 0);
  }

  // tile: of V's or of T's.
  KDA_DEVICE Task task(int of_chunks, int tile) const {
    Task task;
    task.sequence = segment.sequence;
    task.n = segment.n;
    task.head = head;
    task.value0 = tile * 64;
    const int chunks = static_cast<int>((segment.sequence.length() + chunk - 1) / chunk);
    const int before = segment.index * of_chunks;  // chunks
    task.first = static_cast<i64>(before) * chunk;
    task.slot = first_slot(segment.sequence.begin, segment.n, chunk) + before;
    task.chunks = smaller(chunks - before, of_chunks);
    return task;
  }
};

static_assert(!carried || Tiles::count % tune.warpgroups == 0, "each warpgroup has a tile");

// Which of a block's V tiles is a consumer's.
KDA_DEVICE int own_tile() { return carried ? static_cast<int>(threadIdx.x) / 128 : 0; }

// Shared address of how many chunks consumers of the identity leave, 0 while they go on; set before
// they give the last one's slot back.  Who looks while it is set may read either, and is right.
KDA_DEVICE u32 stop_of(const Chain::Ring& ring) { return ring.barriers + 2 * Chain::stages * 8; }
// And of the number of the block's first tile of S_local among all: chains leave it no register.
KDA_DEVICE u32 tile_of(const Chain::Ring& ring) { return stop_of(ring) + 4; }

// Gives back the task's last `left` chunks unread, that others of the block may go on.
KDA_DEVICE void pass(const Chain::Ring& ring, int chunks, int left) {
  Chain::Cursor here{(chunks - left) % Chain::stages,
                     static_cast<u32>((chunks - left) / Chain::stages % 2)};
#pragma unroll 1
  for (; left > 0; --left) {
    ring.wait_full(here);
    ring.release(here);
    here.next();
  }
}

// What has been fed lands before the block ends, whether or not it is still wanted, and whether or
// not all had been fed when the consumers ended.
KDA_DEVICE void land(const Chain::Ring& ring, int fed) {
  Chain::Cursor landing;
  for (int i = 0; i < fed; ++i) {
    if (i >= fed - Chain::stages) ring.wait_full(landing);
    landing.next();
  }
}

}  // namespace kda
