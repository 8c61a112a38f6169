// Strategy segments, stage 4: the recurrence of each segment from the state before it, a block a
// (segment, value head, shard of V columns); the last segment writes the final state.
#include "abi/segments.h"
#include "abi/shape.h"
#include "ptx/dependent.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/chunk_wgmma/consumer.cuh"
#include "sm90/chunk_wgmma/producer.cuh"
#include "sm90/segments/segment.cuh"

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
using Tiles = segments::Tiles<shape>;

// A sequence of one segment starts from the caller's initial state; one of more finds it in the
// last segment's tile, for the final state may be written over it by then.
KDA_DEVICE void load_state(Chain::State& state, const abi::segments::Args& args,
                           const segments::Segment& segment, int head, int column0) {
  const int value_heads = args.chain.in.value_heads;
  if (segment.count == 1) {
    if constexpr (shape.initial_state) {
      state.load(args.chain.out.initial_state, static_cast<i64>(segment.n) * value_heads + head,
                 column0);
    } else {
      state.clear();
    }
    return;
  }
  const int before = segment.index == 0 ? segment.count - 1 : segment.index - 1;
  const int tile = column0 / 64;
  if (tile < Tiles::count && (shape.initial_state || segment.index > 0)) {
    segments::load_tile(state.s[0],
                        Tiles::at(args.segments, segment.slot + before, value_heads, head, tile));
  } else {
    state.clear();
  }
}

extern "C" __global__ void __launch_bounds__(Chain::threads, Chain::resident)
    kda_segments_outputs(const __grid_constant__ abi::segments::Args args) {
  extern __shared__ __align__(1024) char memory[];

  const abi::Inputs& in = args.chain.in;
  const int of_chunks = args.segments.chunks;
  chunk_wgmma::Task task;
  task.value0 = static_cast<int>(blockIdx.x % Chain::shards) * Chain::columns;
  task.head = static_cast<int>(blockIdx.x / Chain::shards % in.value_heads);
  const i64 slot = blockIdx.x / Chain::shards / in.value_heads;
  if (in.tokens == 0) ptx::wait_for_previous();
  const segments::Segment segment = segments::segment_at<shape>(in, slot, of_chunks * Chain::chunk);
  if (!segment.exists()) return;
  task.sequence = segment.sequence;
  task.n = segment.n;
  const int chunks =
      static_cast<int>((segment.sequence.length() + Chain::chunk - 1) / Chain::chunk);
  const int before = segment.index * of_chunks;  // chunks
  task.first = static_cast<i64>(before) * Chain::chunk;
  task.slot = first_slot(segment.sequence.begin, segment.n, Chain::chunk) + before;
  task.chunks = smaller(chunks - before, of_chunks);

  const Chain::Ring ring(memory);
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  // The same for a whole warp, and known to be: products may not sit in divergent code.
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= Chain::consumers / 32) {
    chunk_wgmma::produce<Chain>(ring, args.chain, task, warp);
    return;
  }
  const int column0 = task.value0 + warp * 16;
  Chain::State state;
  ptx::wait_for_previous();
  load_state(state, args, segment, task.head, column0);
  chunk_wgmma::consume<Chain>(ring, args.chain, task, state);
  if constexpr (shape.final_state) {
    if (segment.last()) {
      state.store(args.chain.out.final_state, static_cast<i64>(task.n) * in.value_heads + task.head,
                  column0);
    }
  }
}

}  // namespace kda
