// The recurrence's chain with nothing around it: what a step from chunk to chunk costs.
//   R = V - S Kd^T;   S = diag(decay) S + R Ak;   O = S Qd^T + R Aq^T
// A warpgroup holds 64 V rows of S^T [V, K = 128] as f32 accumulators; Kd, Qd, Ak, Aq and v wait in
// shared memory, so a step has no loads from memory, and O goes to shared memory.
//
// Orders of the same products:
//   tight  O's first product behind R's, everything waited for at the end of its step
//   loose  O of a step drains under the next one; `early` of its 8 k-steps go before S's update
//   joint  R and O's first product are one, S [Kd; Qd]^T with N = 2 C: A is read from registers
//   once ahead  R of the next chunk = V - (Kd decay) S - (Kd Ak) R, so that reading S is off the
//   chain
// Decay of S: `before` the products, or `under` them.
// ptxas forgets at a loop's back edge which products have been waited for and waits for all of them
// (its note C7517), so `unroll` says how many steps one turn of the loop holds.
#include <utility>

#include "bench.cuh"
#include "chain.cuh"

#ifndef CHUNK
#define CHUNK 32
#endif

namespace kda {

template <class d, int... i>
KDA_DEVICE void turn(const Chain<d>& chain, typename Chain<d>::Registers& x, int c,
                     std::integer_sequence<int, i...> /*steps*/) {
  (chain.template step<i & 1>(x, c + i), ...);
}

template <class d>
__global__ void __launch_bounds__(128 * d::warpgroups, 1)
    chain(int steps, long long* clocks, float* sink) {
  extern __shared__ __align__(1024) char memory[];
  using L = Layout<d>;
  // Small numbers that keep S bounded, decays of 0.9.
  for (int i = threadIdx.x; i < L::bytes / 2; i += blockDim.x) {
    const int x = i * 2654435761U >> 24;
    reinterpret_cast<u16*>(memory)[i] = element<type>::from_float((x - 128) * 3e-4F);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * keys; i += blockDim.x) {
    *reinterpret_cast<float*>(memory + i / keys * L::slot + L::decay + i % keys * 4) = 0.9F;
  }
  const Chain<d> chain{ptx::shared_address(memory)};
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(chain.shared + L::bytes - 16, 1);
    ptx::fence_barrier_init();
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  typename Chain<d>::Registers x = {};
  const long long begin = clock64();
#pragma unroll 1
  for (int c = 0; c < steps; c += d::unroll) {
    turn<d>(chain, x, c, std::make_integer_sequence<int, d::unroll>{});
  }
  ptx::wgmma_wait<0>();
  hold(x.r);
  hold(x.o);
  hold(x.ro[0]);
  hold(x.ro[1]);
  const long long end = clock64();
  float sum = 0;
  for (int k = 0; k < keys / 8; ++k) sum += x.s[k][0] + x.s[k][1];
  sum += x.o[0][0] + x.r[0][0] + x.ro[0][0][0] + x.ro[1][0][0];
  if (sum == 1e30F) *sink = sum;
  if (threadIdx.x == 0) clocks[blockIdx.x] = end - begin;
}

constexpr const char* order_names[] = {"tight", "loose", "ahead", "joint"};
constexpr const char* decay_names[] = {"before", "under"};

template <class d>
void measure(long long* clocks, float* sink) {
  constexpr int steps = 2048;
  CHECK(cudaFuncSetAttribute(chain<d>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             Layout<d>::bytes));
  cudaFuncAttributes made;
  CHECK(cudaFuncGetAttributes(&made, chain<d>));
  for (const int blocks : {1, bench::multiprocessors()}) {
    const auto work = [&] {
      chain<d><<<blocks, 128 * d::warpgroups, Layout<d>::bytes>>>(steps, clocks, sink);
    };
    const double ms = bench::milliseconds(work);
    std::vector<long long> took(blocks);
    CHECK(cudaMemcpy(took.data(), clocks, took.size() * 8, cudaMemcpyDeviceToHost));
    const double clk = static_cast<double>(*std::max_element(took.begin(), took.end())) / steps;
    bench::Row("chain")
        .add("order", order_names[static_cast<int>(d::order)])
        .add("decay", decay_names[static_cast<int>(d::decay)])
        .add("chunk", d::chunk)
        .add("warpgroups", d::warpgroups)
        .add("early", d::early)
        .add("preload", d::preload ? 1 : 0)
        .add("unroll", d::unroll)
        .add("blocks", blocks)
        .add("clk_per_step", clk)
        .add("clk_per_16_tokens", clk * 16 / d::chunk)
        .add("us_per_8192_tokens", ms * 1e3 / steps * 8192 / d::chunk)
        .add("registers", made.numRegs)
        .add("spill_bytes", static_cast<int>(made.localSizeBytes))
        .print();
  }
}

template <int warpgroups>
void measure_all(long long* clocks, float* sink) {
  using enum Order;
  using enum Decay;
  constexpr int long_turn = CHUNK == 64 ? 4 : 8;
  measure<Design<CHUNK, tight, before, warpgroups, -1, true, 2>>(clocks, sink);
  measure<Design<CHUNK, ahead, before, warpgroups, -1, true, long_turn>>(clocks, sink);
  measure<Design<CHUNK, tight, before, warpgroups, 8, false, 2>>(clocks, sink);
  measure<Design<CHUNK, loose, before, warpgroups, 8, true, 2>>(clocks, sink);
  measure<Design<CHUNK, loose, before, warpgroups, 4, true, long_turn>>(clocks, sink);
  measure<Design<CHUNK, ahead, before, warpgroups, 8, true, long_turn>>(clocks, sink);
  if constexpr (CHUNK < 64) {  // else there are too few registers
    measure<Design<CHUNK, joint, before, warpgroups, 8, false, 2>>(clocks, sink);
    measure<Design<CHUNK, joint, before, warpgroups, 8, true, 2>>(clocks, sink);
    measure<Design<CHUNK, joint, before, warpgroups, 8, false, long_turn>>(clocks, sink);
    measure<Design<CHUNK, joint, before, warpgroups, 8, true, long_turn>>(clocks, sink);
  }
}

}  // namespace kda

int main() {
  long long* clocks;
  float* sink;
  CHECK(cudaMalloc(&clocks, 1024 * 8));
  CHECK(cudaMalloc(&sink, 4));
  kda::measure_all<1>(clocks, sink);
  kda::measure_all<2>(clocks, sink);
}
