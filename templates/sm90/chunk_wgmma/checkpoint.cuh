// Checkpoints of a chain.  Consumers leave the state's rows in shared memory and go on; a warp of
// its own copies them to their slot of the pool.  (Fencing and copying by the consumers themselves
// made them wait for their outputs' stores.)
#pragma once

#include "base/slots.cuh"
#include "ptx/bulk.cuh"
#include "ptx/shared_words.cuh"
#include "sm90/chunk_wgmma/chain.cuh"

namespace kda::chunk_wgmma {

// The slots that a task's chunks end at.
template <class Chain>
struct CheckpointSlots {
  const abi::chunk::RecurrenceArgs& args;
  const Task& task;
  Checkpoints<Chain::shape> steps;

  KDA_DEVICE CheckpointSlots(const abi::chunk::RecurrenceArgs& of, const Task& by)
      : args(of), task(by), steps(of.out.pool, by.n, Chain::chunk, by.first) {}

  // Of the next chunk, after which `left` are left, or no_slot; asked once a chunk.
  KDA_DEVICE i64 next(int left) {
    const i64 end = task.first + static_cast<i64>(task.chunks - left) * Chain::chunk;
    return end <= task.sequence.length() ? steps.step() : no_slot;
  }
  KDA_DEVICE storage<Chain::shape.state_type>* at(i64 slot) const {
    return Slots<Chain::shape>::at(args.out, args.in, slot, task.head);
  }
};

// Which checkpoint of its sequence, counted from 1 and with or without a slot, a task reaches with
// its chunk after which `left` are left; 0: none.  No counter, which the consumers' registers lack.
template <class Chain>
KDA_DEVICE int checkpoint_at(const abi::StatePool& pool, const Task& task, int left,
                             int rows_at_end) {
  const int tokens = (task.chunks - left) * Chain::chunk;
  const int number = tokens / pool.checkpoint_tokens;
  const bool whole = left > 0 || rows_at_end == Chain::chunk;
  return whole && number * pool.checkpoint_tokens == tokens ? number : 0;
}

// The block's V columns of the state in shared memory, a row each, and whose turn it is.
template <class Chain>
struct CheckpointRows {
  static constexpr abi::Shape shape = Chain::shape;
  static constexpr int row = abi::chunk_wgmma::state_row_bytes(shape);
  static constexpr int pitch = abi::chunk_wgmma::state_row_pitch(shape);
  static constexpr int size = abi::bytes_of(shape.state_type);

  u32 full, empty;  // barriers
  u32 rows;

  KDA_DEVICE explicit CheckpointRows(const typename Chain::Ring& ring)
      : full(ring.barriers + 2 * Chain::stages * 8), empty(full + 8), rows(full + 16) {}

  // By one thread, before the block meets.
  KDA_DEVICE void init() const {
    ptx::mbarrier_init(full, Chain::consumers);
    ptx::mbarrier_init(empty, 32);
    ptx::fence_barrier_init();
  }

  // By the consumers.
  KDA_DEVICE void leave(const typename Chain::State& state, int number) const {
    const tile::Lane lane;
    ptx::mbarrier_wait(empty, static_cast<u32>(number % 2));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 at = rows + (threadIdx.x / 32 * 16 + half * 8 + lane.g) * pitch + 2 * lane.t * size;
#pragma unroll
      for (int k = 0; k < shape.key_dim / 8; ++k) {
        const float* x = &state.s[0][k][half * 2];
        if constexpr (shape.state_type == abi::DType::f32) {
          ptx::st_shared_f32x2(at + k * 8 * size, make_float2(x[0], x[1]));
        } else {
          ptx::st_shared_u32(at + k * 8 * size, element<shape.state_type>::pack(x[0], x[1]));
        }
      }
    }
    ptx::mbarrier_arrive(full);
  }
};

// The warp that copies.
template <class Chain>
KDA_DEVICE void bring_checkpoints(const typename Chain::Ring& ring,
                                  const abi::chunk::RecurrenceArgs& args, const Task& task) {
  using Rows = CheckpointRows<Chain>;
  constexpr abi::Shape shape = Chain::shape;
  const Rows from(ring);
  CheckpointSlots<Chain> slots(args, task);
  const int exist = smaller(Chain::values - task.value0, Chain::columns);
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int left = task.chunks - 1; left >= 0; --left) {
    const i64 slot = slots.next(left);
    const int number = checkpoint_at<Chain>(args.out.pool, task, left, last_rows<Chain>(task));
    if (number == 0) continue;
    ptx::mbarrier_wait(from.full, static_cast<u32>((number + 1) % 2));
    auto* to = slots.at(slot) + static_cast<i64>(task.value0) * shape.key_dim;
    if (slot == no_slot) {
    } else if (reinterpret_cast<u64>(to) % 16 == 0) {
      ptx::fence_async_proxy();
      for (int r = lane; r < exist; r += 32) {
        ptx::bulk_store(to + r * shape.key_dim, from.rows + r * Rows::pitch, Rows::row);
      }
      ptx::bulk_store_commit();
      ptx::bulk_store_wait_read();
    } else {  // no copy writes there
#pragma unroll 1
      for (int i = lane; i < exist * shape.key_dim; i += 32) {
        const u32 at = from.rows + i / shape.key_dim * Rows::pitch + i % shape.key_dim * Rows::size;
        if constexpr (Rows::size == 4) {
          to[i] = ptx::ld_shared_f32(at);
        } else {
          to[i] = ptx::ld_shared_u16(at);
        }
      }
    }
    ptx::mbarrier_arrive(from.empty);
  }
  ptx::bulk_store_wait();
}

}  // namespace kda::chunk_wgmma
