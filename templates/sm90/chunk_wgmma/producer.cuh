// The producer warp of a chain: the factor tiles of each chunk by bulk copies, v by cp.async.
#pragma once

#include "base/tensor.cuh"
#include "ptx/bulk.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/dependent.cuh"
#include "sm90/chunk_wgmma/chain.cuh"

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

// What stands in the ring's slots, chunk after chunk: Kd with v beside it, Qd with Aq, Ak with the
// decay, and perhaps Ak's rest.
template <class Chain>
KDA_DEVICE void produce(const typename Chain::Ring& ring, const abi::chunk::RecurrenceArgs& args,
                        const Task& task) {
  using Factor = typename Chain::Factor;
  using Square = typename Chain::Square;
  constexpr int chunk = Chain::chunk;
  constexpr int parts = Chain::parts;
  const int lane = threadIdx.x % 32;
  const abi::Inputs& in = args.in;
  const bool vectored = is_vectored<Chain::type>(in.v, Chain::values);
  const int exist = smaller(Chain::values - task.value0, Chain::columns);
  const u16* v = static_cast<const u16*>(in.v.data) + task.value0 +
                 offset_of<Chain::shape.varlen>(in.v, task.n, task.sequence.begin, task.head);
  ptx::wait_for_previous();
#pragma unroll 1
  for (int at = 0; at < task.chunks; ++at) {
    const i64 tile = (task.slot + at) * in.value_heads + task.head;
    const char* images[] = {
        static_cast<const char*>(args.factors.kd), static_cast<const char*>(args.factors.qd),
        static_cast<const char*>(args.factors.ak), static_cast<const char*>(args.factors.ak_rest)};
    const u32 full = ring.full(parts * at);
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      const int step = parts * at + part;
      ring.wait_empty(step);
      const u32 slot = ring.slot(step);
      const u32 side = slot + Factor::bytes;
      if (lane == 0) {
        if (part == 0) {
          ptx::mbarrier_expect_tx(full, parts * Factor::bytes + Square::bytes + Chain::keys * 4);
        }
        ptx::bulk_load(slot, images[part] + tile * Factor::bytes, Factor::bytes, full);
        if (part == 1) {
          ptx::bulk_load(side, static_cast<const char*>(args.factors.aq) + tile * Square::bytes,
                         Square::bytes, full);
        } else if (part == 2) {
          ptx::bulk_load(side, args.factors.decay + tile * Chain::keys, Chain::keys * 4, full);
        }
      }
      if (part == 0) {
        const i64 first = task.first + static_cast<i64>(at) * chunk;
        load_values<Chain>(side, v + first * in.v.token, in.v.token, task.sequence.length() - first,
                           exist, vectored);
        if (vectored) {
          ptx::cp_async_arrive(full);
        } else {
          ptx::mbarrier_arrive(full);
        }
      }
    }
  }
  ptx::cp_async_wait_all();
}

}  // namespace kda::chunk_wgmma
