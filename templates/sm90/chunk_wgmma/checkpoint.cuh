// Checkpoints of a chain.  Consumers leave the state in shared memory and go on; a warp of its own
// copies it to its slot of the pool.
#pragma once

#include "base/slots.cuh"
#include "ptx/bulk.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/special_registers.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/state_box.cuh"

namespace kda::chunk_wgmma {

// The slots of a task's checkpoints, chunk by chunk.
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
KDA_DEVICE u32 checkpoint_at(const abi::StatePool& pool, const Task& task, int left,
                             int rows_at_end) {
  const int tokens = (task.chunks - left) * Chain::chunk;
  const int number = tokens / pool.checkpoint_tokens;
  const bool whole = left > 0 || rows_at_end == Chain::chunk;
  return whole && number * pool.checkpoint_tokens == tokens ? static_cast<u32>(number) : 0;
}

// The block's V columns of the state in shared memory, a box a warp (sm90/state_box.cuh): so many
// buffers in turn, checkpoint 1 in the first.  All follows from a checkpoint's number.
template <class Chain>
struct CheckpointBuffers {
  using Box = StateBox<Chain::shape>;
  static constexpr int boxes = Chain::columns / Box::rows;
  static constexpr u32 count = Chain::checkpoint_buffers;
  static_assert(!Chain::copies_checkpoints || Chain::checkpoint_bytes % abi::state_box::align == 0);

  u32 barriers;  // full, then empty, of each buffer

  KDA_DEVICE explicit CheckpointBuffers(const typename Chain::Ring& ring)
      : barriers(ring.barriers + 2 * Chain::stages * 8) {}

  // By one thread, before the block meets.
  KDA_DEVICE void init() const {
    for (u32 i = 0; i < count; ++i) {
      ptx::mbarrier_init(full(i + 1), Chain::consumers);
      ptx::mbarrier_init(empty(i + 1), 32);
    }
    ptx::fence_barrier_init();
  }

  KDA_DEVICE void retire() const {
    for (u32 i = 0; i < 2 * count; ++i) ptx::mbarrier_inval(barriers + i * 8);
  }

  // Of the buffer of checkpoint `number`.
  KDA_DEVICE u32 full(u32 number) const { return barriers + index(number) * 8; }
  KDA_DEVICE u32 empty(u32 number) const { return barriers + (count + index(number)) * 8; }
  KDA_DEVICE Box box(u32 number, u32 warp) const {
    return {barriers + Chain::checkpoints_from + index(number) * Chain::checkpoint_bytes +
            warp * Box::bytes};
  }
  // Until the consumers have left it there.
  KDA_DEVICE void wait_full(u32 number) const { ptx::mbarrier_wait(full(number), round(number)); }

  // By the consumers.
  KDA_DEVICE void leave(const typename Chain::State& state, u32 number) const {
    ptx::mbarrier_wait(empty(number), round(number) ^ 1);  // the first time round it is empty
    const u32 thread = ptx::thread_now();  // nothing of this in registers across the chain
    if (!Chain::halves || thread / 32 < boxes)
      box(number, thread / 32).put(state.s[0], thread % 32);
    ptx::mbarrier_arrive(full(number));
  }

 private:
  static KDA_DEVICE u32 index(u32 number) { return (number - 1) % count; }
  static KDA_DEVICE u32 round(u32 number) { return (number - 1) / count % 2; }  // its parity
};

// The warp that copies.  It waits until a buffer has been read, and hands it back, only when the
// next one's copy has begun.  Every lane does, as each may have read: racecheck follows no arrival
// of one for all.
template <class Chain>
KDA_DEVICE void bring_checkpoints(const typename Chain::Ring& ring,
                                  const abi::chunk::RecurrenceArgs& args,
                                  const abi::state_box::Pool& pool, const Task& task) {
  using Buffers = CheckpointBuffers<Chain>;
  const Buffers buffers(ring);
  CheckpointSlots<Chain> slots(args, task);
  const u32 lane = threadIdx.x % 32;
#pragma unroll 1
  for (int left = task.chunks - 1; left >= 0; --left) {
    const i64 slot = slots.next(left);
    const u32 number = checkpoint_at<Chain>(args.out.pool, task, left, last_rows<Chain>(task));
    if (number == 0) continue;
    buffers.wait_full(number);
    if (slot == no_slot) {
    } else if (pool.present) {
      if (lane == 0) {
        ptx::fence_async_proxy();
        const int row = task.head * Chain::values + task.value0;
#pragma unroll
        for (int i = 0; i < Buffers::boxes; ++i) {
          constexpr int rows = Buffers::Box::rows;
          if (Chain::values % Chain::columns != 0 && task.value0 + i * rows >= Chain::values) break;
          buffers.box(number, i).send(pool, slot, row + i * rows);
        }
      }
    } else {
      constexpr int keys = Chain::shape.key_dim;
      const int elements = smaller(Chain::values - task.value0, Chain::columns) * keys;
      auto* to = slots.at(slot) + static_cast<i64>(task.value0) * keys;
#pragma unroll 1
      for (int i = static_cast<int>(lane); i < elements; i += 32) {
        const u32 row = i / keys;
        const u32 from =
            buffers.box(number, row / Buffers::Box::rows).at(row % Buffers::Box::rows, i % keys);
        if constexpr (sizeof(*to) == 4) {
          to[i] = ptx::ld_shared_f32(from);
        } else {
          to[i] = ptx::ld_shared_u16(from);
        }
      }
    }
    __syncwarp();
    if (lane == 0) {
      ptx::bulk_store_commit();  // if only of nothing: the wait counts one a checkpoint
      ptx::bulk_store_wait_read<Buffers::count - 1>();
    }
    const u32 read = number - (Buffers::count - 1);
    if (read > 0) ptx::mbarrier_arrive(buffers.empty(read));
  }
  ptx::bulk_store_wait();
}

}  // namespace kda::chunk_wgmma
