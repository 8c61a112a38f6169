// Strategy chunk_wgmma, stage 2: as strategy chunk's recurrence, a block a sequence, value head and
// shard of V columns, on warpgroup products (consumer.cuh), with more warps for what comes and goes
// (producer.cuh).
// Where a stage of their own serves short sequences (short_tokens) there are no more blocks than
// multiprocessors: each looks for long ones, takes another part when done, and lets that stage
// start beside it.
#include "abi/chunk_wgmma.h"
#include "abi/shape.h"
#include "base/guard.cuh"
#include "base/slots.cuh"
#include "base/varlen.cuh"
#include "ptx/dependent.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/chunk_wgmma/checkpoint.cuh"
#include "sm90/chunk_wgmma/consumer.cuh"
#include "sm90/chunk_wgmma/producer.cuh"
#include "sm90/long_sequence.cuh"
#include "sm90/stay_out.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::chunk_wgmma::Tuning tune = KDA_TUNING;
using Chain = chunk_wgmma::Chain<shape, tune>;

using Given = Guardable<abi::chunk_wgmma::Args>;

// What a sequence that does not begin from zero begins from.
KDA_DEVICE const Slots<shape>::Storage* start_of(const Given& given, const Slots<shape>& slots,
                                                 const chunk_wgmma::Task& task) {
  using Storage = Slots<shape>::Storage;
  const abi::chunk::RecurrenceArgs& args = unguarded(given).chain;
  if constexpr (guarded && shape.state_pool) {
    const auto* kept = static_cast<const Storage*>(kept_states(given));
    if (kept != nullptr) return kept + Slots<shape>::in_row(args.in, task.n, task.head);
  }
  return slots.start(args.out, args.in, task.head);
}

// From a sequence's state to its state after all chunks.
KDA_DEVICE void walk(char* memory, const Given& given, chunk_wgmma::Task& task) {
  const abi::chunk_wgmma::Args& all = unguarded(given);
  const abi::chunk::RecurrenceArgs& args = all.chain;
  const abi::Inputs& in = args.in;
  task.sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, task.n);
  task.first = 0;
  task.slot = first_slot(task.sequence.begin, task.n, Chain::chunk);
  task.chunks = static_cast<int>((task.sequence.length() + Chain::chunk - 1) / Chain::chunk);

  const Slots<shape> slots(args.out, task.n);
  if (shape.state_pool && slots.padding) {
    // The run ends after its prepare stage; of blocks that take several sequences the first waits.
    if constexpr (!Chain::leaves_short) ptx::wait_for_previous();
    if (shape.zero_padding) {
      auto* o = static_cast<storage<Chain::type>*>(const_cast<void*>(args.out.o.data)) +
                offset_of<shape.varlen>(args.out.o, task.n, task.sequence.begin, task.head);
      write_zeros<Chain::type>(o + task.value0, args.out.o.token, task.sequence.length(),
                               smaller(Chain::columns, Chain::values - task.value0),
                               Chain::threads);
    }
    return;
  }

  const Chain::Ring ring(memory);
  if (threadIdx.x == 0) {
    ring.init(chunk_wgmma::by_engine<Chain>(all.rows));
    if constexpr (Chain::copies_checkpoints) chunk_wgmma::CheckpointBuffers<Chain>(ring).init();
  }
  if (threadIdx.x < Chain::consumers) ring.clear_values();
  __syncthreads();
  // The same for a whole warp, and known to be: products may not sit in divergent code.
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= Chain::consumers / 32) {
    chunk_wgmma::produce<Chain>(ring, all, task, warp);
  } else {
    const auto value0 = [&] {
      return chunk_wgmma::first_column<Chain>(task, static_cast<int>(threadIdx.x) / 32);
    };
    Chain::State state;
    if (in.tokens == 0) ptx::wait_for_previous();  // else the prepare stage did
    if (slots.has_start()) {
      state.load_paired(start_of(given, slots, task), value0());
    } else {
      state.clear();
    }
    chunk_wgmma::consume<Chain>(ring, args, task, state);
    if constexpr (shape.final_state) {
      // With checkpoints no register is left to hold the slot across the chain.
      const i64 own = shape.checkpoints ? Slots<shape>(args.out, task.n).own : slots.own;
      state.store_paired(Slots<shape>::at(args.out, in, own, task.head), value0());
    }
  }
  if constexpr (Chain::leaves_short) {
    __syncwarp();
    __syncthreads();
    if (threadIdx.x == 0) {
      ring.retire();
      if constexpr (Chain::copies_checkpoints) chunk_wgmma::CheckpointBuffers<Chain>(ring).retire();
    }
  }
}

extern "C" __global__ void __launch_bounds__(Chain::threads, Chain::resident)
    kda_chunk_wgmma_recurrence(const __grid_constant__ Given given) {
  extern __shared__ __align__(1024) char memory[];
  const abi::Inputs& in = unguarded(given).chain.in;
  // Without tokens, where it is the first, all lengths are 0, whatever cu_seqlens may be yet.
  if (ends_at_once<shape>(given, in)) return;
  const auto part = [&](u32 number) {  // of all (sequence, value head, shard)
    chunk_wgmma::Task task;
    task.value0 = static_cast<int>(number % Chain::shards) * Chain::columns;
    task.head = static_cast<int>(number / Chain::shards % in.value_heads);
    task.n = static_cast<int>(number / Chain::shards / in.value_heads);
    return task;
  };
  if constexpr (!Chain::leaves_short) {
    chunk_wgmma::Task task = part(blockIdx.x);
    // Engines pack decodes before prefills: the last sequences are the long ones, and start first.
    if constexpr (shape.varlen) task.n = in.sequences - 1 - task.n;
    if (in.tokens == 0) ptx::wait_for_previous();
    // The next run's prepare stage, or the other way's, may wait where this run's has ended.
    if constexpr (Chain::beside || guard == abi::Guard::alike) ptx::launch_dependents();
    walk(memory, given, task);
  } else {
    ptx::launch_dependents();
#pragma unroll 1
    for (u32 number = blockIdx.x;; number += gridDim.x) {
      chunk_wgmma::Task task = part(number);
      task.n = long_sequence<shape, tune.short_tokens>(in, in.sequences, task.n);
      if (task.n < 0) {
        // The run ends after its prepare stage, or after what came before where it has no tokens.
        // This kernel ends with its last block, so that it is enough if one waits.
        if (blockIdx.x == 0) ptx::wait_for_previous();
        return;
      }
      walk(memory, given, task);
    }
  }
}

}  // namespace kda
