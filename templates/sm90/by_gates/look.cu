// Strategy by_gates, stage 1: whether gates forget, before each segment, what came before the lead.
// A word is set where they may not; who walks a segment finds for certain (sm90/fused/forget.cuh).
#include "abi/by_gates.h"
#include "abi/factors.h"
#include "abi/shape.h"
#include "base/element.cuh"
#include "base/varlen.cuh"
#include "ptx/dependent.cuh"
#include "step/gate.cuh"
#include "step/log_decay.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  { .key_dim = 128 }
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr int keys = shape.key_dim;
constexpr int quarters = abi::by_gates::quarters;
constexpr int chunk = abi::factors::chunk;
constexpr int lead_tokens = abi::by_gates::lead_chunks * chunk;
constexpr int threads = abi::by_gates::threads(keys);
static_assert(keys % 32 == 0);

// The log decay of this thread's channel over its quarter of a lead that begins with a token.
KDA_DEVICE float log_decays(const abi::Inputs& in, int n, int head, i64 token) {
  const int channel = static_cast<int>(threadIdx.x) % keys;
  const int quarter = static_cast<int>(threadIdx.x) / keys;
  constexpr int own = lead_tokens / quarters;
  const auto* g = static_cast<const storage<shape.gate_type>*>(in.g.data) +
                  offset_of<false>(in.g, n, 0, head) + (token + quarter * own) * in.g.token +
                  channel;
  const float rate = step::gate_rate<shape>(in.A_log, head);
  const float bias = step::gate_bias<shape>(in.dt_bias, head, channel);
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < own; ++i) {
    const float x = element<shape.gate_type>::to_float(g[i * in.g.token]);
    sum += step::log_decay<shape>(x, rate, bias, in.lower_bound);
  }
  return sum;
}

extern "C" __global__ void __launch_bounds__(threads)
    kda_by_gates_look(const __grid_constant__ abi::by_gates::LookArgs args) {
  __shared__ float largest[threads / 32];
  const abi::Inputs& in = args.in;
  ptx::wait_for_previous();
  ptx::launch_dependents();
  const i64 chunks = (in.length + chunk - 1) / chunk;
  const int borders = args.segments - 1;
  const int all = args.carries ? 0 : in.sequences * in.value_heads * borders;
  const bool is_short = !args.carries && chunks / args.segments <= abi::by_gates::lead_chunks;
  bool found = args.other || is_short;
#pragma unroll 1
  for (int i = static_cast<int>(blockIdx.x); i < all && !found; i += abi::by_gates::blocks) {
    const int part = i / borders;
    const int border = i % borders + 1;
    const i64 token =
        static_cast<i64>(abi::by_gates::first_chunk(chunks, border, args.segments)) * chunk;
    float most = log_decays(in, part / in.value_heads, part % in.value_heads, token - lead_tokens);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      most = step::at_least(__shfl_xor_sync(0xffffffffU, most, step), most);
    }
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = most;
    __syncthreads();
    constexpr int warps = keys / 32;  // a quarter
    float sum = 0.0F;
#pragma unroll
    for (int quarter = 0; quarter < quarters; ++quarter) {
      float own = largest[quarter * warps];
#pragma unroll
      for (int warp = 1; warp < warps; ++warp) {
        own = step::at_least(largest[quarter * warps + warp], own);
      }
      sum += own;
    }
    if (!(sum <= abi::by_gates::least_decay)) found = true;
    __syncthreads();
  }
  if (threadIdx.x == 0) args.found[blockIdx.x] = found ? 1 : 0;
}

}  // namespace kda
