// Checkpoints of a chain.  Consumers leave the state in shared memory and go on; a warp of its own
// copies it to its slot of the pool.
#pragma once

#include "base/slots.cuh"
#include "ptx/bulk.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/special_registers.cuh"
#include "sm90/chunk_wgmma/chain.cuh"

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

// The block's V columns of the state in shared memory, as they will lie in the pool: so many
// buffers in turn, checkpoint 1 in the first.  All follows from a checkpoint's number.
template <class Chain>
struct CheckpointBuffers {
  static constexpr abi::Shape shape = Chain::shape;
  static constexpr abi::DType type = shape.state_type;
  static constexpr int size = abi::bytes_of(type);
  static constexpr int row = shape.key_dim * size;
  static constexpr int tiles = shape.key_dim / 8;
  // Rows that a store of the warp's takes to one bank at once: tiles are written in another order
  // on each, which keeps them apart.
  static constexpr int rows_at_once = size == 4 ? 4 : 8;
  static constexpr u32 count = Chain::checkpoint_buffers;

  u32 barriers;  // full, then empty, of each buffer

  KDA_DEVICE explicit CheckpointBuffers(const typename Chain::Ring& ring)
      : barriers(ring.barriers + 2 * Chain::stages * 8) {}

  // By one thread, before the block meets.
  KDA_DEVICE void init() const {
    for (u32 i = 0; i < count; ++i) {
      ptx::mbarrier_init(full(i + 1), Chain::consumers);
      ptx::mbarrier_init(empty(i + 1), 1);
    }
    ptx::fence_barrier_init();
  }

  KDA_DEVICE void retire() const {
    for (u32 i = 0; i < 2 * count; ++i) ptx::mbarrier_inval(barriers + i * 8);
  }

  // Of the buffer of checkpoint `number`.
  KDA_DEVICE u32 full(u32 number) const { return barriers + index(number) * 8; }
  KDA_DEVICE u32 empty(u32 number) const { return barriers + (count + index(number)) * 8; }
  KDA_DEVICE u32 data(u32 number) const {
    return barriers + Chain::checkpoints_from + index(number) * Chain::checkpoint_bytes;
  }
  // Until the consumers have left it there.
  KDA_DEVICE void wait_full(u32 number) const { ptx::mbarrier_wait(full(number), round(number)); }

  // By the consumers.
  KDA_DEVICE void leave(const typename Chain::State& state, u32 number) const {
    ptx::mbarrier_wait(empty(number), round(number) ^ 1);  // the first time round it is empty
    const u32 thread = ptx::thread_now();  // nothing of this in registers across the chain
    const u32 turn = thread % 32 / 4 % rows_at_once;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 line = data(number) + (thread / 32 * 16 + half * 8 + thread % 32 / 4) * row +
                       thread % 4 * (2 * size);
#pragma unroll
      for (int first = 0; first < tiles; first += rows_at_once) {
        Pair pairs[rows_at_once];
#pragma unroll
        for (int k = 0; k < rows_at_once; ++k) {
          pairs[k] = pair_of(&state.s[0][first + k][half * 2]);
        }
        // pairs[k] becomes that of tile k ^ turn.
#pragma unroll
        for (int bit = 1; bit < rows_at_once; bit *= 2) {
#pragma unroll
          for (int k = 0; k < rows_at_once; ++k) {
            if ((k & bit) == 0) swap_if((turn & bit) != 0, pairs[k], pairs[k | bit]);
          }
        }
#pragma unroll
        for (int k = 0; k < rows_at_once; ++k) {
          put(line + first * 8 * size + (k ^ turn) * (8 * size), pairs[k]);
        }
      }
    }
    ptx::mbarrier_arrive(full(number));
  }

 private:
  static KDA_DEVICE u32 index(u32 number) { return (number - 1) % count; }
  static KDA_DEVICE u32 round(u32 number) { return (number - 1) / count % 2; }  // its parity

  struct Pair {
    u32 words[size / 2];
  };
  static KDA_DEVICE Pair pair_of(const float* x) {
    if constexpr (type == abi::DType::f32) {
      return {{__float_as_uint(x[0]), __float_as_uint(x[1])}};
    } else {
      return {{element<type>::pack(x[0], x[1])}};
    }
  }
  static KDA_DEVICE void swap_if(bool yes, Pair& a, Pair& b) {
#pragma unroll
    for (int w = 0; w < size / 2; ++w) {
      const u32 x = a.words[w];
      a.words[w] = yes ? b.words[w] : x;
      b.words[w] = yes ? x : b.words[w];
    }
  }
  static KDA_DEVICE void put(u32 address, const Pair& pair) {
    if constexpr (type == abi::DType::f32) {
      ptx::st_shared_u32x2(address, pair.words[0], pair.words[1]);
    } else {
      ptx::st_shared_u32(address, pair.words[0]);
    }
  }
};

// A checkpoint to its slot, in pieces that are copied at once; by one thread, which commits them.
KDA_DEVICE void store_checkpoint(void* to, u32 from, u32 bytes) {
  constexpr u32 piece = 8192;
#pragma unroll 1
  for (u32 at = 0; at < bytes; at += piece) {
    const u32 left = bytes - at;
    ptx::bulk_store(static_cast<char*>(to) + at, from + at, left < piece ? left : piece);
  }
}

// The warp that copies.  It waits until a buffer has been read, and hands it back, only when the
// next one's copy has begun.
template <class Chain>
KDA_DEVICE void bring_checkpoints(const typename Chain::Ring& ring,
                                  const abi::chunk::RecurrenceArgs& args, const Task& task) {
  using Buffers = CheckpointBuffers<Chain>;
  constexpr abi::Shape shape = Chain::shape;
  const Buffers buffers(ring);
  CheckpointSlots<Chain> slots(args, task);
  const int elements = smaller(Chain::values - task.value0, Chain::columns) * shape.key_dim;
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int left = task.chunks - 1; left >= 0; --left) {
    const i64 slot = slots.next(left);
    const u32 number = checkpoint_at<Chain>(args.out.pool, task, left, last_rows<Chain>(task));
    if (number == 0) continue;
    buffers.wait_full(number);
    const u32 from = buffers.data(number);
    auto* to = slots.at(slot) + static_cast<i64>(task.value0) * shape.key_dim;
    if (slot == no_slot) {
    } else if (reinterpret_cast<u64>(to) % 16 == 0) {
      if (lane == 0) {
        ptx::fence_async_proxy();
        store_checkpoint(to, from, elements * Buffers::size);
      }
    } else {  // no copy writes there
#pragma unroll 1
      for (int i = lane; i < elements; i += 32) {
        if constexpr (Buffers::size == 4) {
          to[i] = ptx::ld_shared_f32(from + i * 4);
        } else {
          to[i] = ptx::ld_shared_u16(from + i * 2);
        }
      }
    }
    __syncwarp();
    if (lane == 0) {
      ptx::bulk_store_commit();  // if only of nothing: the wait counts one a checkpoint
      ptx::bulk_store_wait_read<Buffers::count - 1>();
      const u32 read = number - (Buffers::count - 1);
      if (read > 0) ptx::mbarrier_arrive(buffers.empty(read));
    }
  }
  ptx::bulk_store_wait();
}

}  // namespace kda::chunk_wgmma
