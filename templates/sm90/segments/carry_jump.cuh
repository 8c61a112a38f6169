// What a block of the carry stage does where states are not soon forgotten: it finds T of its
// segment, so that the state after it is known as soon as that before it is, and no segment's chain
// waits for that of another.
#pragma once

#include "abi/segments.h"
#include "base/types.cuh"
#include "ptx/barrier.cuh"
#include "ptx/bulk.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/wgmma.cuh"
#include "sm90/chunk_wgmma/products.cuh"
#include "sm90/segments/tiles.cuh"
#include "sm90/segments/transition_product.cuh"
#include "sm90/segments/walk_part.cuh"

namespace kda {

// Of what is left of states at segments' ends.
KDA_DEVICE float* carried_at(const abi::segments::Args& args, i64 head_slot, int tile) {
  return args.carried.states + (head_slot * Tiles::count + tile) * (Tiles::bytes / 4);
}

template <int count>
KDA_DEVICE void add_tile(float (&s)[count][4], const float* tile) {
  float other[count][4];
  segments::load_tile(other, tile);
#pragma unroll
  for (int k = 0; k < count; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) s[k][e] += other[k][e];
  }
}

// An image that the block's own threads have written, from memory to shared memory.
KDA_DEVICE void fetch_image(u32 to, const void* images, i64 number) {
  const auto* from =
      reinterpret_cast<const uint4*>(static_cast<const char*>(images) + number * Image::bytes);
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < Image::bytes / 16; i += Chain::consumers) {
    ptx::st_shared_u32x4(to + static_cast<u32>(i) * 16, __ldcg(from + i));
  }
}

// What is left at the segment's end: T times that before it, and of the first turn, if that has
// left something.  By the consumers, where the ring was.
KDA_DEVICE void jump(const Chain::Ring& ring, const abi::segments::Args& args, const Part& part,
                     bool had) {
  const i64 own = part.head_slot(args.chain.in);
  const int tile = part.value_tile();
  static_assert(2 * Image::bytes <= Chain::stages * Chain::slot.bytes);
  fetch_image(ring.slots, args.segments.transition, part.tile(args.chain.in));
  fetch_image(ring.slots + Image::bytes, args.segments.transition_rest, part.tile(args.chain.in));
  ptx::fence_async_proxy();
  ptx::barrier_wait(1, Chain::consumers);
  Chain::State state;
  auto& s = state.s[0];
  segments::load_tile(s, carried_at(args, own - args.chain.in.value_heads, tile));
  u32 a[keys / 16][4];
  u32 rest[keys / 16][4];
  segments::split<keys>(a, rest, s);
#pragma unroll
  for (auto& x : s) x[0] = x[1] = x[2] = x[3] = 0.0F;
  float* to = carried_at(args, own, tile);
  if (had) add_tile(s, to);
  chunk_wgmma::hold(s);
  ptx::wgmma_fence();
  segments::apply<keys, Image>(s, a, rest, ring.slots);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  chunk_wgmma::hold(s);
  segments::store_tile(s, to);
}

}  // namespace kda
