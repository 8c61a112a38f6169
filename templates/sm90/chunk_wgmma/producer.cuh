// The producers of a chain, a warp each: the factors of each chunk by bulk copies, v by cp.async.
// Together in one warp they took as long as a chunk's products.
#pragma once

#include "base/tensor.cuh"
#include "ptx/bulk.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/dependent.cuh"
#include "ptx/flag.cuh"
#include "sm90/chunk_wgmma/chain.cuh"
#include "sm90/chunk_wgmma/checkpoint.cuh"

namespace kda::chunk_wgmma {

// One chunk of v, rows and columns that do not exist as zeros: 16 bytes a copy, or element by
// element where v is not 16-byte aligned.
template <class Chain>
KDA_DEVICE void load_values(u32 to, const u16* v, i64 token, i64 left, int exist, bool vectored) {
  constexpr int columns = Chain::columns;
  constexpr int value_row = Chain::value_row;
  const int lane = threadIdx.x % 32;
  if (vectored) {
#pragma unroll
    for (int i = 0; i < Chain::chunk * columns / 8 / 32; ++i) {
      const int row = (i * 32 + lane) / (columns / 8);
      const int column = lane % (columns / 8) * 8;
      const bool there = row < left && column < exist;
      ptx::cp_async_16_or_zero(to + row * value_row + column * 2,
                               v + (there ? row * token + column : 0), there);
    }
  } else {
    for (int i = lane; i < Chain::chunk * columns; i += 32) {
      const int row = i / columns;
      const int column = i % columns;
      const u16 x = row < left && column < exist ? v[row * token + column] : u16(0);
      ptx::st_shared_u16(to + row * value_row + column * 2, x);
    }
  }
}

// The warp that feeds v.
template <class Chain>
KDA_DEVICE void feed_values(const typename Chain::Ring& ring, const abi::Inputs& in,
                            const Task& task) {
  constexpr int chunk = Chain::chunk;
  const bool vectored = is_vectored<Chain::type>(in.v, Chain::values);
  const int exist = smaller(Chain::values - task.value0, Chain::columns);
  const u16* v = static_cast<const u16*>(in.v.data) + task.value0 + task.first * in.v.token +
                 offset_of<Chain::shape.varlen>(in.v, task.n, task.sequence.begin, task.head);
  i64 left = task.sequence.length() - task.first;
  typename Chain::Cursor to;
#pragma unroll 1
  for (int at = 0; at < task.chunks; ++at) {
    ring.wait_empty(to);
    load_values<Chain>(ring.at(to) + Chain::slot.v, v, in.v.token, left, exist, vectored);
    if (vectored) {
      ptx::cp_async_arrive(ring.full(to));
    } else {
      ptx::mbarrier_arrive(ring.full(to));
    }
    v += chunk * in.v.token;
    left -= chunk;
    to.next();
  }
  ptx::cp_async_wait_all();
}

// Starts the copies of a chunk's factors; one thread.
template <class Chain>
KDA_DEVICE void load_factors(const typename Chain::Ring& ring, typename Chain::Cursor to,
                             const abi::chunk::Factors& factors, i64 tile) {
  using Factor = typename Chain::Factor;
  using Square = typename Chain::Square;
  constexpr int images = 2 + (Chain::writes_outputs ? 1 : 0) + (Chain::writes_twice ? 1 : 0);
  constexpr int square = Chain::writes_outputs ? Square::bytes : 0;
  const u32 slot = ring.at(to);
  const u32 full = ring.full(to);
  ptx::mbarrier_arrive_expecting(full, images * Factor::bytes + square + Chain::keys * 4);
  const auto bring = [&](int part, const void* from, int bytes) {
    ptx::bulk_load(slot + part, static_cast<const char*>(from) + tile * bytes, bytes, full);
  };
  bring(Chain::slot.kd, factors.kd, Factor::bytes);
  if constexpr (Chain::writes_outputs) bring(Chain::slot.qd, factors.qd, Factor::bytes);
  bring(Chain::slot.ak, factors.ak, Factor::bytes);
  if constexpr (Chain::writes_twice) bring(Chain::slot.ak_rest, factors.ak_rest, Factor::bytes);
  bring(Chain::slot.decay, factors.decay, Chain::keys * 4);
  if constexpr (Chain::writes_outputs) bring(Chain::slot.aq, factors.aq, Square::bytes);
}

// The warp that feeds factors, one thread of it.
template <class Chain>
KDA_DEVICE void feed_factors(const typename Chain::Ring& ring,
                             const abi::chunk::RecurrenceArgs& args, const Task& task) {
  ptx::wait_for_previous();
  i64 tile = task.slot * args.in.value_heads + task.head;
  typename Chain::Cursor to;
#pragma unroll 1
  for (int at = 0; at < task.chunks; ++at) {
    ring.wait_empty(to);
    load_factors<Chain>(ring, to, args.factors, tile);
    tile += args.in.value_heads;
    to.next();
  }
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
template <class Chain>
KDA_DEVICE void feed_ready_factors(const typename Chain::Ring& ring,
                                   const abi::chunk::RecurrenceArgs& args, const Task& task) {
  const u32* flags = args.factors.ready + task.head * args.factors.slots + task.slot;
  i64 tile = task.slot * args.in.value_heads + task.head;
  int ready = 0;
  typename Chain::Cursor to;
#pragma unroll 1
  for (int at = 0; at < task.chunks; ++at) {
    while (at == ready) ready += ready_chunks(flags + at, task.chunks - at);
    ring.wait_empty(to);
    if (threadIdx.x % 32 == 0) {
      ptx::fence_async_proxy_global();
      load_factors<Chain>(ring, to, args.factors, tile);
    }
    tile += args.in.value_heads;
    to.next();
  }
  // So that this kernel does not end before the one beside it; for blocks that take several
  // sequences their first block does, when it is done.
  if constexpr (!Chain::leaves_short) ptx::wait_for_previous();
}

// What the warps past the consumers do.
template <class Chain>
KDA_DEVICE void produce(const typename Chain::Ring& ring, const abi::chunk::RecurrenceArgs& args,
                        const Task& task, int warp) {
  if (warp == Chain::consumers / 32 + 2) {
    if constexpr (Chain::copies_checkpoints) bring_checkpoints<Chain>(ring, args, task);
  } else if (warp == Chain::consumers / 32 + 1) {
    feed_values<Chain>(ring, args.in, task);
  } else if constexpr (Chain::beside) {
    feed_ready_factors<Chain>(ring, args, task);
  } else if (threadIdx.x % 32 == 0) {
    feed_factors<Chain>(ring, args, task);
  }
}

}  // namespace kda::chunk_wgmma
