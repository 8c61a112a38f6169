// Strategy unit_steps, between both ways: whether what the first one took for granted held.  Where
// it did not a state became NaN and stayed so (step/gate.cuh, sm90/factors/units.cuh), so the
// outputs of a sequence's last token say it.  NaN among the inputs says the same, and costs time
// only.
#include "abi/shape.h"
#include "abi/unit_steps.h"
#include "base/element.cuh"
#include "base/slots.cuh"
#include "base/varlen.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr int threads = abi::unit_steps::threads;

// Of one output a tile of V columns, as tiles may be others' work.
constexpr int tile = 64;
constexpr int tiles = (shape.value_dim + tile - 1) / tile;

KDA_DEVICE bool is_nan(float x) { return !(x == x); }

extern "C" __global__ void __launch_bounds__(threads)
    kda_unit_steps_look(const __grid_constant__ abi::unit_steps::Args args) {
  const abi::Inputs& in = args.in;
  const auto* o = static_cast<const storage<shape.qkv_type>*>(args.out.o.data);
  const i64 heads = static_cast<i64>(in.sequences) * in.value_heads;
  int found = 0;
  for (i64 i = static_cast<i64>(blockIdx.x) * threads + threadIdx.x; i < heads;
       i += threads * abi::unit_steps::blocks) {
    const int n = static_cast<int>(i / in.value_heads);
    const int head = static_cast<int>(i % in.value_heads);
    const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n);
    if (sequence.chunked(args.short_tokens) == 0) continue;
    if (shape.state_pool && Slots<shape>(args.out, n).padding) continue;  // whose outputs stay
    const i64 last = offset_of<shape.varlen>(args.out.o, n, sequence.begin, head) +
                     (sequence.length() - 1) * args.out.o.token;
#pragma unroll 1
    for (int j = 0; j < tiles; ++j) {
      if (is_nan(element<shape.qkv_type>::to_float(o[last + j * tile]))) found = 1;
    }
  }
  found = __syncthreads_or(found);
  if (threadIdx.x == 0) args.found[blockIdx.x] = static_cast<u32>(found);
}

}  // namespace kda
