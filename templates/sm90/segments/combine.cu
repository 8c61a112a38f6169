// Strategy segments, stage 3: the states between the segments of a sequence, one after another,
//   S_end = T S_begin + S_local
// a block a (sequence, value head, 64 V columns).  One warpgroup holds S^T as accumulators, in f32;
// T and S enter the product as a bf16 and what it lost, three products for one, so that what the
// product adds is of the order of 2^-17 and not of the 2^-9 of a factor.
#include "abi/segments.h"
#include "abi/shape.h"
#include "base/element.cuh"
#include "ptx/bulk.cuh"
#include "ptx/dependent.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/wgmma.cuh"
#include "sm90/chunk_wgmma/products.cuh"
#include "sm90/segments/segment.cuh"
#include "step/state.cuh"
#include "tile/shared.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::segments::Tuning tune = KDA_TUNING;  // chunk alone

constexpr int keys = abi::chunk::factor_keys(shape);
constexpr int stages = abi::segments::combine_stages;
constexpr int consumers = 128;
constexpr int threads = consumers + 32;

using Image = tile::Shared<abi::DType::bf16, keys, keys>;  // of T^T
using State = step::State<shape, 1, keys>;
using Tiles = segments::Tiles<shape>;

constexpr int stage_bytes = abi::segments::combine_stage_bytes(shape);
static_assert(Image::bytes == abi::segments::transition_bytes(shape));

// T^T, its rest and S_local of a segment a slot, and whether there is a T.
struct Ring {
  u32 slots;  // shared addresses
  u32 barriers;

  KDA_DEVICE explicit Ring(void* memory)
      : slots(ptx::shared_address(memory)),
        barriers(ptx::shared_address(memory) + stages * stage_bytes) {}
  KDA_DEVICE u32 slot(int step) const { return slots + step % stages * stage_bytes; }
  KDA_DEVICE u32 full(int step) const { return barriers + step % stages * 32; }
  KDA_DEVICE u32 empty(int step) const { return full(step) + 8; }
  KDA_DEVICE u32 alive(int step) const { return full(step) + 16; }
  static KDA_DEVICE u32 parity(int step) { return step / stages & 1; }
};

// Segments 1 .. count - 2, whose states before them are not known.
KDA_DEVICE void produce(const Ring& ring, const abi::segments::Args& args,
                        const segments::Segment& segment, int head, int tile) {
  const int value_heads = args.chain.in.value_heads;
  const int lane = threadIdx.x % 32;
  const int steps = segment.count - 2;
  const auto head_slot = [&](int step) { return (segment.slot + 1 + step) * value_heads + head; };
  ptx::wait_for_previous();
  int flags = 0;  // of 32 steps, one a lane
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if (step % 32 == 0 && step + lane < steps) {
      const int* of = args.segments.alive + head_slot(step + lane) * abi::segments::flags;
      flags = of[0];
      if constexpr (keys > 64) flags |= of[1];
    }
    const int alive = __shfl_sync(0xffffffffU, flags, step % 32);
    if (step >= stages) ptx::mbarrier_wait(ring.empty(step), Ring::parity(step - stages));
    if (lane == 0) {
      const i64 at = head_slot(step);
      const u32 slot = ring.slot(step);
      const u32 full = ring.full(step);
      ptx::mbarrier_expect_tx(full, Tiles::bytes + (alive != 0 ? 2 * Image::bytes : 0));
      ptx::bulk_load(slot + 2 * Image::bytes,
                     Tiles::at(args.segments, segment.slot + 1 + step, value_heads, head, tile),
                     Tiles::bytes, full);
      if (alive != 0) {
        ptx::bulk_load(slot, static_cast<const char*>(args.segments.transition) + at * Image::bytes,
                       Image::bytes, full);
        ptx::bulk_load(slot + Image::bytes,
                       static_cast<const char*>(args.segments.transition_rest) + at * Image::bytes,
                       Image::bytes, full);
      }
      ptx::st_shared_u32(ring.alive(step), static_cast<u32>(alive));
      ptx::mbarrier_arrive(full);
    }
    __syncwarp();
  }
}

// s[V, K] += (a + rest)[V, K] (T + rest)^T, but for the product of the rests; small terms first.
KDA_DEVICE void apply(float (&s)[keys / 8][4], const u32 (&a)[keys / 16][4],
                      const u32 (&rest)[keys / 16][4], u32 slot) {
  const ptx::WgmmaTile t(slot, 128, Image::panel_bytes, 1024);
  const ptx::WgmmaTile t_rest(slot + Image::bytes, 128, Image::panel_bytes, 1024);
  using Product = ptx::wgmma_m64k16<abi::DType::bf16, keys, 1>;
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) Product::run(&s[0][0], rest[k], t.at(k * 16 * 128), 1);
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) Product::run(&s[0][0], a[k], t_rest.at(k * 16 * 128), 1);
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) Product::run(&s[0][0], a[k], t.at(k * 16 * 128), 1);
}

// S^T as bf16 operands, and what they lost.
KDA_DEVICE void split(u32 (&a)[keys / 16][4], u32 (&rest)[keys / 16][4],
                      const float (&s)[keys / 8][4]) {
  using Element = element<abi::DType::bf16>;
#pragma unroll
  for (int k = 0; k < keys / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = s[2 * k + i / 2] + i % 2 * 2;
      a[k][i] = Element::pack(pair[0], pair[1]);
      const float2 kept = Element::unpack(a[k][i]);
      rest[k][i] = Element::pack(pair[0] - kept.x, pair[1] - kept.y);
    }
  }
}

KDA_DEVICE void consume(const Ring& ring, const abi::segments::Args& args,
                        const segments::Segment& segment, int head, int tile) {
  const int value_heads = args.chain.in.value_heads;
  const auto tile_at = [&](int index) {
    return Tiles::at(args.segments, segment.slot + index, value_heads, head, tile);
  };
  State state;
  auto& s = state.s[0];
  if constexpr (shape.initial_state) {
    // The outputs stage may write the final state over the initial one before it reads this.
    state.load(args.chain.out.initial_state, static_cast<i64>(segment.n) * value_heads + head,
               tile * 64 + static_cast<int>(threadIdx.x) / 32 * 16);
    segments::store_tile(s, tile_at(segment.count - 1));
  }
  ptx::wait_for_previous();
  segments::load_tile(s, tile_at(0));

  u32 a[keys / 16][4];
  u32 rest[keys / 16][4];
#pragma unroll 1
  for (int step = 0; step < segment.count - 2; ++step) {
    split(a, rest, s);
    ptx::mbarrier_wait(ring.full(step), Ring::parity(step));
    const u32 slot = ring.slot(step);
    // What decayed to nothing is 0 times what it was, which keeps NaN and infinity.
    const u32 local = slot + 2 * Image::bytes + threadIdx.x * 16;
#pragma unroll
    for (int k = 0; k < keys / 8; ++k) {
      const float4 x = ptx::ld_shared_f32x4(local + k * 128 * 16);
      s[k][0] = s[k][0] * 0.0F + x.x;
      s[k][1] = s[k][1] * 0.0F + x.y;
      s[k][2] = s[k][2] * 0.0F + x.z;
      s[k][3] = s[k][3] * 0.0F + x.w;
    }
    // The same for all, and known to be.
    if (__any_sync(0xffffffffU, ptx::ld_shared_u32(ring.alive(step)) != 0)) {
      chunk_wgmma::hold(s);
      ptx::wgmma_fence();
      apply(s, a, rest, slot);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>();
      chunk_wgmma::hold(s);
    }
    ptx::mbarrier_arrive(ring.empty(step));
    segments::store_tile(s, tile_at(step + 1));
  }
}

extern "C" __global__ void __launch_bounds__(threads, 1)
    kda_segments_combine(const __grid_constant__ abi::segments::Args args) {
  extern __shared__ __align__(1024) char memory[];

  ptx::launch_dependents();
  const abi::Inputs& in = args.chain.in;
  const int tile = static_cast<int>(blockIdx.x % Tiles::count);
  const int head = static_cast<int>(blockIdx.x / Tiles::count % in.value_heads);
  const int n = static_cast<int>(blockIdx.x / Tiles::count / in.value_heads);
  const segments::Segment segment(sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n), n, 0,
                                  args.segments.chunks * tune.chunk);
  if (segment.count < 2) {
    ptx::wait_for_previous();  // or the next stage would not wait for the one before
    return;
  }
  const Ring ring(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) {
      ptx::mbarrier_init(ring.full(i), 1);
      ptx::mbarrier_init(ring.empty(i), consumers);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  // The same for a whole warp, and known to be: products may not sit in divergent code.
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= consumers / 32) {
    produce(ring, args, segment, head, tile);
  } else {
    consume(ring, args, segment, head, tile);
  }
}

}  // namespace kda
