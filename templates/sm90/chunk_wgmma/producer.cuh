// What feeds a chain: a warp brings each chunk's factors by a bulk copy, another v (rows.cuh).
// Together in one warp they took as long as a chunk's products.
#pragma once

#include "ptx/bulk.cuh"
#include "ptx/dependent.cuh"
#include "ptx/flag.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/chunk_wgmma/checkpoint.cuh"
#include "sm90/chunk_wgmma/rows.cuh"

namespace kda::chunk_wgmma {

// Starts the copy of a chunk's factors; one thread.
template <class Chain>
KDA_DEVICE void load_factors(const typename Chain::Ring& ring, typename Chain::Cursor to,
                             const abi::chunk::Factors& factors, i64 tile) {
  constexpr int bytes = Chain::slot.image.bytes;
  const u32 full = ring.full(to);
  ptx::mbarrier_arrive_expecting(full, bytes);
  ptx::bulk_load(ring.at(to), factors.images + tile * bytes, bytes, full);
}

// The warp that feeds factors, one thread of it.  ended(): whether the consumers want no more,
// asked once they have given a slot back.  Returns how many chunks were fed.
template <class Chain, class Ended>
KDA_DEVICE int feed_factors(const typename Chain::Ring& ring,
                            const abi::chunk::RecurrenceArgs& args, const Task& task,
                            const Ended& ended) {
  ptx::wait_for_previous();
  i64 tile = task.slot * args.in.value_heads + task.head;
  typename Chain::Cursor to;
#pragma unroll 1
  for (int at = 0; at < task.chunks; ++at) {
    ring.wait_empty(to);
    if (ended()) return at;
    load_factors<Chain>(ring, to, args.factors, tile);
    tile += args.in.value_heads;
    to.next();
  }
  return task.chunks;
}

// How many of the next `left` chunks, at most 32, are ready; a whole warp asks.
KDA_DEVICE int ready_chunks(const u32* flags, int left) {
  const int lane = threadIdx.x % 32;
  const bool ready = lane < left && ptx::acquire(flags + lane) != 0;
  const u32 waiting = __ballot_sync(0xffffffffU, !ready);
  __syncwarp();
  return waiting == 0 ? 32 : __ffs(static_cast<int>(waiting)) - 1;
}

// The warp that feeds factors where the prepare stage runs beside: each chunk once it is ready.
template <class Chain, class Ended>
KDA_DEVICE int feed_ready_factors(const typename Chain::Ring& ring,
                                  const abi::chunk::RecurrenceArgs& args, const Task& task,
                                  const Ended& ended) {
  const u32* flags = args.factors.ready + task.head * args.factors.slots + task.slot;
  i64 tile = task.slot * args.in.value_heads + task.head;
  int ready = 0;
  typename Chain::Cursor to;
#pragma unroll 1
  for (int at = 0; at < task.chunks; ++at) {
    while (at == ready) {
      ready += ready_chunks(flags + at, task.chunks - at);
      if (ended()) return at;
    }
    ring.wait_empty(to);
    if (ended()) return at;
    if (threadIdx.x % 32 == 0) {
      ptx::fence_async_proxy_global();
      load_factors<Chain>(ring, to, args.factors, tile);
    }
    tile += args.in.value_heads;
    to.next();
  }
  return task.chunks;
}

// The one or the other; a whole warp comes here.  Its thread 0 learns how many were fed.
template <class Chain, class Ended>
KDA_DEVICE int feed(const typename Chain::Ring& ring, const abi::chunk::RecurrenceArgs& args,
                    const Task& task, const Ended& ended) {
  if constexpr (Chain::beside) {
    const int fed = feed_ready_factors<Chain>(ring, args, task, ended);
    // So that this kernel does not end before the one beside it; for blocks that take several
    // sequences their first block does, when it is done.
    if constexpr (!Chain::leaves_short) ptx::wait_for_previous();
    return fed;
  } else {
    return threadIdx.x % 32 == 0 ? feed_factors<Chain>(ring, args, task, ended) : 0;
  }
}

// What the warps past the consumers do.
template <class Chain>
KDA_DEVICE void produce(const typename Chain::Ring& ring, const abi::chunk_wgmma::Args& all,
                        const Task& task, int warp) {
  const abi::chunk::RecurrenceArgs& args = all.chain;
  const int number = warp - Chain::consumers / 32;
  if (number > Chain::row_warps) {
    if constexpr (Chain::copies_checkpoints)
      bring_checkpoints<Chain>(ring, args, all.checkpoints, task);
  } else if (number > 0) {
    move_rows<Chain>(ring, all, task, number - 1);
  } else {
    feed<Chain>(ring, args, task, [] { return false; });
  }
}

}  // namespace kda::chunk_wgmma
