// Strategy unit_beta, between both ways: whether any beta of the run is out of [0, 1], NaN with
// them.
#include "abi/shape.h"
#include "abi/unit_beta.h"
#include "base/element.cuh"
#include "base/varlen.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr int threads = abi::unit_beta::threads;

struct Tokens {
  i64 begin, end;
};

// Those that a sequence may have; what lies around them in a pack is nobody's and not read.
KDA_DEVICE Tokens tokens_of(const abi::Inputs& in) {
  if constexpr (!shape.varlen) return {0, in.tokens};
  __shared__ i64 first[threads / 32];
  __shared__ i64 last[threads / 32];
  i64 begin = in.tokens;
  i64 end = 0;
  for (int n = static_cast<int>(threadIdx.x); n < in.sequences; n += threads) {
    const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n);
    if (sequence.length() == 0) continue;
    if (sequence.begin < begin) begin = sequence.begin;
    if (sequence.end > end) end = sequence.end;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const i64 other_begin = __shfl_xor_sync(0xffffffffU, begin, step);
    const i64 other_end = __shfl_xor_sync(0xffffffffU, end, step);
    if (other_begin < begin) begin = other_begin;
    if (other_end > end) end = other_end;
  }
  if (threadIdx.x % 32 == 0) {
    first[threadIdx.x / 32] = begin;
    last[threadIdx.x / 32] = end;
  }
  __syncthreads();
  for (int warp = 0; warp < threads / 32; ++warp) {
    if (first[warp] < begin) begin = first[warp];
    if (last[warp] > end) end = last[warp];
  }
  return {begin, end};
}

extern "C" __global__ void __launch_bounds__(threads)
    kda_unit_beta_range(const __grid_constant__ abi::unit_beta::Args args) {
  const abi::Inputs& in = args.in;
  const Tokens tokens = tokens_of(in);
  const auto* beta = static_cast<const storage<shape.beta_type>*>(in.beta.data);
  // Heads of a token lie side by side as a rule; both are carried from turn to turn, as a division
  // takes longer than a load.
  const int heads = in.value_heads;
  const int step = threads * abi::unit_beta::blocks;
  const int own = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  i64 token = tokens.begin + own / heads;
  int head = own % heads;
  i64 n = 0;  // of a dense run, in which `token` is counted
  int found = args.again;
  for (;;) {
    if constexpr (!shape.varlen) {
      if (token >= in.length && in.length > 0) {
        n += token / in.length;
        token %= in.length;
      }
    }
    if ((shape.varlen ? token : n * in.length + token) >= tokens.end) break;
    const float x =
        element<shape.beta_type>::to_float(beta[(shape.varlen ? 0 : n * in.beta.sequence) +
                                                token * in.beta.token + head * in.beta.head]);
    if (!(x >= 0.0F && x <= 1.0F)) found = 1;
    token += step / heads;
    head += step % heads;
    if (head >= heads) {
      head -= heads;
      ++token;
    }
  }
  found = __syncthreads_or(found);
  if (threadIdx.x == 0) args.found[blockIdx.x] = static_cast<u32>(found);
}

}  // namespace kda
