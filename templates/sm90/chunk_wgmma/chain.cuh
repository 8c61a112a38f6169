// What the kernels that walk a chain of chunks agree on: each warpgroup holds 64 V columns of S^T
// as wgmma accumulators, and one more warp feeds a ring of factor tiles.
#pragma once

#include "abi/chunk_wgmma.h"
#include "abi/shape.h"
#include "base/varlen.cuh"
#include "ptx/mbarrier.cuh"
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

// outputs: whether Qd and Aq are fed, too.
template <abi::Shape model, abi::chunk_wgmma::Tuning tune, bool outputs = true>
struct Chain {
  static constexpr abi::Shape shape = model;
  static constexpr abi::DType type = shape.qkv_type;
  static constexpr int chunk = tune.chunk;
  static constexpr int chunk_tiles = chunk / 8;
  static constexpr int stages = tune.load_stages;
  static constexpr int consumers = 128 * tune.warpgroups;  // threads
  static constexpr int threads = consumers + 32;
  // Blocks a multiprocessor can hold.  Two blocks of 5 warps put 3 on one of its quarters, which
  // has 168 registers a thread for them; a chunk of 64 needs more.
  static constexpr int resident = tune.warpgroups == 1 && chunk < 64 ? 2 : 1;
  static constexpr int keys = abi::chunk::factor_keys(shape);  // K with room
  static constexpr int values = shape.value_dim;
  static constexpr int columns = 64 * tune.warpgroups;  // V columns a block
  static constexpr int shards = ceil_div(values, columns);
  static constexpr int value_row = abi::chunk_wgmma::value_row_bytes(tune);
  static constexpr int slot_bytes = abi::chunk_wgmma::slot_bytes(shape, tune);
  static constexpr float writer_scale = abi::chunk::writer_scale(shape);
  static constexpr int parts = abi::chunk::factor_parts(shape) - (outputs ? 0 : 1);

  static_assert(type != abi::DType::f32, "wgmma takes 16-bit factors here");
  static_assert(keys == 64 || keys == 128, "K must be 33 to 128");

  using Factor = tile::Shared<type, chunk, keys>;
  using Square = tile::Shared<type, chunk, chunk>;
  using State = step::State<shape, 1, keys>;
  using Scale = tile::Scale<type>;
  using Accumulators = float[chunk_tiles][4];  // [V, C]

  struct Ring {
    u32 slots;     // shared addresses
    u32 barriers;  // full, then empty, of each slot

    KDA_DEVICE explicit Ring(void* memory)
        : slots(ptx::shared_address(memory)),
          barriers(ptx::shared_address(memory) + stages * slot_bytes) {}

    // By one thread, before the block meets.
    KDA_DEVICE void init() const {
      for (int i = 0; i < stages; ++i) {
        ptx::mbarrier_init(full(i), 32);  // every lane of the producer
        ptx::mbarrier_init(empty(i), consumers);
      }
      ptx::fence_barrier_init();
    }

    KDA_DEVICE u32 slot(int step) const { return slots + step % stages * slot_bytes; }
    KDA_DEVICE u32 full(int step) const { return barriers + step % stages * 8; }
    KDA_DEVICE u32 empty(int step) const { return barriers + (stages + step % stages) * 8; }
    KDA_DEVICE void wait_full(int step) const { ptx::mbarrier_wait(full(step), parity(step)); }
    // Until all parts of the chunk that starts at `step` have come: its first slot's barrier counts
    // them, so a slot's barrier turns only when the slot holds a first part.
    KDA_DEVICE void wait_chunk(int step) const { ptx::mbarrier_wait(full(step), step / turn & 1); }
    // This thread is done with a slot.
    KDA_DEVICE void release(int step) const { ptx::mbarrier_arrive(empty(step)); }
    // The producer's: until the slot has been released by all.
    KDA_DEVICE void wait_empty(int step) const {
      if (step >= stages) ptx::mbarrier_wait(empty(step), parity(step - stages));
    }

   private:
    static constexpr int turn = parts * stages / greatest_common_divisor(parts, stages);
    static KDA_DEVICE u32 parity(int step) { return step / stages & 1; }
  };
};

}  // namespace kda::chunk_wgmma
