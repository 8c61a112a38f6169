// What the prepare stages are timed on: one sequence of 8,192 tokens, 64 heads, K = 128.
#pragma once

#include "abi/chunk.h"
#include "base/element.cuh"
#include "bench.cuh"

namespace bench {

using kda::u16;
using kda::u32;

constexpr int tokens = 8192;
constexpr int heads = 64;

using kda::u16;
using kda::u32;

// bf16 of about N(0, 1), the sum of four uniforms.
__global__ void fill(u16* to, long long count) {
  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < count; i += gridDim.x * 256LL) {
    u32 x = static_cast<u32>(i) * 2654435761U + 12345;
    float sum = 0;
    for (int j = 0; j < 4; ++j) {
      x = x * 1664525U + 1013904223U;
      sum += static_cast<float>(x >> 8) * 0x1p-24F;
    }
    to[i] = kda::element<kda::abi::DType::bf16>::from_float((sum - 2.0F) * 1.73F);
  }
}

template <class Type>
Type* allocate(long long count) {
  Type* memory = nullptr;
  CHECK(cudaMalloc(&memory, count * sizeof(Type)));
  return memory;
}

inline u16* normals(long long count) {
  u16* memory = allocate<u16>(count);
  fill<<<1024, 256>>>(memory, count);
  CHECK(cudaGetLastError());
  return memory;
}

// Room for chunks of `chunk` tokens.
inline kda::abi::chunk::PrepareArgs prepare_args(int chunk) {
  using namespace kda;
  constexpr int K = 128;
  constexpr long long rows = 1LL * tokens * heads;
  const auto tensor = [](const void* data, int channels) {
    return abi::Tensor{data, 1LL * tokens * heads * channels, 1LL * heads * channels, channels};
  };
  abi::chunk::PrepareArgs args;
  abi::Inputs& in = args.in;
  in.q = tensor(normals(rows * K), K);
  in.k = tensor(normals(rows * K), K);
  in.v = tensor(nullptr, K);
  in.g = tensor(normals(rows * K), K);
  in.beta = tensor(normals(rows), 1);
  in.tokens = in.length = tokens;
  in.sequences = 1;
  in.value_heads = heads;
  args.factors.slots = tokens / chunk + 1;
  const long long tiles = args.factors.slots * heads;
  args.factors.images = allocate<char>(tiles * kda::abi::chunk::image({}, chunk).bytes);
  return args;
}

}  // namespace bench
