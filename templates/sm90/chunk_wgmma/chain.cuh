// What the kernels that walk a chain of chunks agree on: each warpgroup holds 64 V columns of S^T
// as wgmma accumulators, or 32 and zeros; a warp feeds factors to a ring of chunks, one or two
// bring v and take o away, and one may copy checkpoints.
#pragma once

#include "abi/chunk_wgmma.h"
#include "abi/shape.h"
#include "base/varlen.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_words.cuh"
#include "step/state.cuh"
#include "tile/scale.cuh"
#include "tile/shared.cuh"

namespace kda::chunk_wgmma {

// What one block works on.
struct Task {
  Sequence sequence;
  int n, head, value0;  // value0: the block's first V column
  i64 first;            // token of its first chunk, within the sequence
  i64 slot;             // of that chunk
  int chunks;
};

// Tokens of the task's last chunk.
template <class Chain>
KDA_DEVICE int last_rows(const Task& task) {
  const i64 left =
      task.sequence.length() - task.first - static_cast<i64>(task.chunks - 1) * Chain::chunk;
  return static_cast<int>(left < Chain::chunk ? left : Chain::chunk);
}

// A consumer warp's first V column; past the last one where the block has none for it.
template <class Chain>
KDA_DEVICE int first_column(const Task& task, int warp) {
  if (Chain::halves && warp * 16 >= Chain::columns) return Chain::values;
  return task.value0 + warp * 16;
}

template <abi::Shape model, abi::chunk_wgmma::Tuning tune>
struct Chain {
  static constexpr abi::Shape shape = model;
  static constexpr abi::DType type = shape.qkv_type;
  static constexpr int chunk = tune.chunk;
  static constexpr int chunk_tiles = chunk / 8;
  static constexpr int stages = tune.load_stages;
  static constexpr int consumers = 128 * tune.warpgroups;  // threads
  static constexpr int threads = abi::chunk_wgmma::chain_threads(shape, tune);
  static constexpr int resident = abi::chunk_wgmma::resident_blocks(shape, tune);
  static constexpr int row_warps = abi::chunk_wgmma::row_warps(shape, tune);
  static constexpr int keys = abi::chunk::factor_keys(shape);  // K with room
  static constexpr bool roomy =                                // in registers
      tune.warpgroups == 1 && resident == 1 && keys <= abi::chunk_wgmma::most_keys_in_room;
  static constexpr int values = shape.value_dim;
  static constexpr int columns = abi::chunk_wgmma::columns(tune);  // of V, a block
  static constexpr bool halves = columns < consumers / 2;  // the others of a product are empty
  static constexpr int shards = ceil_div(values, columns);
  static constexpr abi::chunk_wgmma::Slot slot = abi::chunk_wgmma::slot(shape, tune);
  static constexpr float writer_scale = abi::chunk::writer_scale(shape);
  static constexpr bool maps_rows = abi::chunk_wgmma::maps_rows(shape, tune);
  static constexpr bool copies_checkpoints = abi::chunk_wgmma::copies_checkpoints(shape);
  static constexpr int checkpoint_buffers = abi::chunk_wgmma::checkpoint_buffers(shape, tune);
  static constexpr int checkpoint_bytes = abi::chunk_wgmma::checkpoint_bytes(shape, tune);
  static constexpr int checkpoints_from =  // bytes past the ring
      abi::chunk_wgmma::checkpoints_from(shape, tune, checkpoint_buffers) -
      abi::chunk_wgmma::ring_bytes(shape, tune);
  static constexpr bool beside = tune.stages_at_once > 1;
  static constexpr bool leaves_short = tune.short_tokens > 1;  // to a stage of their own
  static constexpr bool writes_twice = abi::chunk::writes_twice(shape);

  static_assert(type != abi::DType::f32, "wgmma takes 16-bit factors here");
  static_assert(keys >= 64 && keys <= 256, "K must be 33 to 256");
  static_assert(keys <= 128 || (tune.warpgroups == 1 && chunk <= 32),
                "more than 128 channels leave registers for one warpgroup and a chunk of 32");
  static_assert(!halves || (tune.warpgroups == 1 && copies_checkpoints),
                "columns=32 is for one warpgroup whose checkpoints are copied");

  using Factor = tile::Shared<type, chunk, keys>;
  using Square = tile::Shared<type, chunk, chunk>;
  using Values = tile::Shared<type, chunk, consumers / 2>;  // rows of v, and of o
  using State = step::State<shape, 1, keys>;
  using Scale = tile::Scale<type>;
  using Accumulators = float[chunk_tiles][4];  // [V, C]

  // A place in the ring, and how often it has been passed (by parity).
  struct Cursor {
    int index = 0;
    u32 parity = 0;

    KDA_DEVICE void next() {
      if (++index == stages) {
        index = 0;
        parity ^= 1;
      }
    }
  };

  struct Ring {
    u32 slots;     // shared addresses
    u32 barriers;  // full, then empty, of each slot

    KDA_DEVICE explicit Ring(void* memory) : slots(ptx::shared_address(memory)) {
      // Within a loop over tasks the compiler would rather compute it for every chunk.
      if constexpr (leaves_short) asm volatile("" : "+r"(slots));
      barriers = slots + stages * Chain::slot.bytes;
    }

    // By one thread, before the block meets.  Arrivals that fill a slot: the thread that feeds
    // factors, and the one that has v brought by the copy engine or every lane that brings it.
    KDA_DEVICE void init(bool by_engine) const { init_for(by_engine ? 1 : 32 * row_warps); }
    // rows: arrivals of those who bring them.
    KDA_DEVICE void init_for(int rows) const {
      for (int i = 0; i < stages; ++i) {
        ptx::mbarrier_init(full({i, 0}), 1 + rows);
        ptx::mbarrier_init(empty({i, 0}), consumers);
      }
      ptx::fence_barrier_init();
    }

    // By the same thread, when the block is done with a task: so that init() may come again.
    KDA_DEVICE void retire() const {
      for (int i = 0; i < 2 * stages; ++i) ptx::mbarrier_inval(barriers + i * 8);
    }

    // By the consumers, before the block meets: the columns past the block's, which nobody brings.
    // Their state is zero, too, and so all that becomes of them.
    KDA_DEVICE void clear_values() const {
      if constexpr (halves) {
        constexpr int own = columns / 8, rest = consumers / 16 - own;  // units of 16 bytes, a row
        for (int i = static_cast<int>(threadIdx.x); i < stages * chunk * rest; i += consumers) {
          const u32 rows = at({i / rest / chunk, 0}) + Chain::slot.v;
          ptx::st_shared_u32x4(rows + Values::at(i / rest % chunk, (own + i % rest) * 8),
                               make_uint4(0, 0, 0, 0));
        }
      }
    }

    KDA_DEVICE u32 at(Cursor c) const { return slots + c.index * Chain::slot.bytes; }
    KDA_DEVICE u32 full(Cursor c) const { return barriers + c.index * 8; }
    KDA_DEVICE u32 empty(Cursor c) const { return barriers + (stages + c.index) * 8; }
    KDA_DEVICE void wait_full(Cursor c) const { ptx::mbarrier_wait(full(c), c.parity); }
    KDA_DEVICE bool is_full(Cursor c) const { return ptx::mbarrier_test(full(c), c.parity); }
    // Until the slot has been released by all; the first time round it is empty.
    KDA_DEVICE void wait_empty(Cursor c) const { ptx::mbarrier_wait(empty(c), c.parity ^ 1); }
    // This thread is done with a slot.
    KDA_DEVICE void release(Cursor c) const { ptx::mbarrier_arrive(empty(c)); }
  };
};

}  // namespace kda::chunk_wgmma
