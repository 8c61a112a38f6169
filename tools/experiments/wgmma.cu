// What a wgmma with A in registers costs by its N: m64nNk16, eight to a group as K = 128 wants, one
// group after the other on the same accumulators.
//   clk_waited     a group, from its first instruction until it has been waited for
//   clk_streamed   a group while the one before it may still run: the rate
// With 1, 2 and 4 warpgroups, all multiprocessors busy.
#include "abi/dtype.h"
#include "base/element.cuh"
#include "bench.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/wgmma.cuh"
#include "tile/shared.cuh"

namespace kda {

constexpr abi::DType type = abi::DType::bf16;

template <int n>
using Tile = tile::Shared<type, n, 128>;

template <int n, int pending>
__global__ void __launch_bounds__(512, 1) run(int rounds, long long* clocks, float* sink) {
  extern __shared__ __align__(1024) char memory[];
  for (int i = threadIdx.x; i < Tile<n>::bytes / 2; i += blockDim.x) {
    const int x = i * 2654435761U >> 24;
    reinterpret_cast<u16*>(memory)[i] = element<type>::from_float((x - 128) * 3e-4F);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const ptx::WgmmaTile tile(ptx::shared_address(memory), 128, 0, 1024);
  u32 a[8][4];
  for (int k = 0; k < 8; ++k) {
    for (int i = 0; i < 4; ++i) a[k][i] = element<type>::pack(0.01F * k, 0.02F * i);
  }
  float d[n / 2] = {};
  const long long begin = clock64();
#pragma unroll 4
  for (int round = 0; round < rounds; ++round) {
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      ptx::wgmma_m64k16<type, n, 0>::run(d, a[k],
                                         tile.at(k / 4 * Tile<n>::panel_bytes + k % 4 * 32), 1);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<pending>();
  }
  ptx::wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < n / 2; ++i) asm volatile("" : "+f"(d[i])::"memory");
  const long long end = clock64();
  if (d[0] == 1e30F) *sink = d[0];
  if (threadIdx.x == 0) clocks[blockIdx.x] = end - begin;
}

template <int n, int pending>
double clocks_a_group(int warpgroups, long long* clocks, float* sink) {
  constexpr int rounds = 2048;
  const int blocks = bench::multiprocessors();
  for (int i = 0; i < 2; ++i) {  // the first warms up
    run<n, pending><<<blocks, 128 * warpgroups, Tile<n>::bytes>>>(rounds, clocks, sink);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  std::vector<long long> took(blocks);
  CHECK(cudaMemcpy(took.data(), clocks, took.size() * 8, cudaMemcpyDeviceToHost));
  return static_cast<double>(*std::max_element(took.begin(), took.end())) / rounds;
}

template <int n>
void measure(long long* clocks, float* sink) {
  for (const int warpgroups : {1, 2, 4}) {
    const double streamed = clocks_a_group<n, 1>(warpgroups, clocks, sink);
    bench::Row("wgmma")
        .add("n", n)
        .add("warpgroups", warpgroups)
        .add("clk_waited", clocks_a_group<n, 0>(warpgroups, clocks, sink))
        .add("clk_streamed", streamed)
        .add("clk_streamed_each", streamed / 8 / warpgroups)
        .add("flop_per_clk", 2.0 * 64 * n * 16 * 8 * warpgroups / streamed)
        .print();
  }
}

}  // namespace kda

int main() {
  long long* clocks;
  float* sink;
  CHECK(cudaMalloc(&clocks, 1024 * 8));
  CHECK(cudaMalloc(&sink, 4));
  kda::measure<16>(clocks, sink);
  kda::measure<32>(clocks, sink);
  kda::measure<64>(clocks, sink);
  kda::measure<128>(clocks, sink);
}
