// Throughput of what the prepare step leans on, in clocks an element (or a 16-byte row) and SM,
// with 4 to 16 warps an SM: ex2 and tanh on the special-function unit, alone and under FFMAs;
// ldmatrix and stmatrix; packed bf16 multiplies.
#include "base/types.cuh"
#include "bench.cuh"
#include "ptx/ldmatrix.cuh"

namespace kda {

enum class Op {
  ex2,
  tanh,
  ex2_bf16x2,
  ffma,
  hmul2,
  ldmatrix,
  ldmatrix_trans,
  stmatrix,
  cvt_bf16x2
};
constexpr const char* names[] = {"ex2",      "tanh",           "ex2_bf16x2", "ffma",      "hmul2",
                                 "ldmatrix", "ldmatrix_trans", "stmatrix",   "cvt_bf16x2"};

// Elements that one lane's instruction makes or moves.
constexpr int elements_of(Op op) {
  switch (op) {
    case Op::ex2_bf16x2:
    case Op::hmul2:
    case Op::cvt_bf16x2:
      return 2;
    case Op::ldmatrix:
    case Op::ldmatrix_trans:
    case Op::stmatrix:
      return 8;
    default:
      return 1;
  }
}

constexpr int chains = 8;  // independent instructions a lane

template <Op op>
KDA_DEVICE void apply(u32 (&x)[chains], u32 address) {
#pragma unroll
  for (int i = 0; i < chains; ++i) {
    if constexpr (op == Op::ex2) {
      asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+r"(x[i]));
    } else if constexpr (op == Op::tanh) {
      asm volatile("tanh.approx.f32 %0, %0;" : "+r"(x[i]));
    } else if constexpr (op == Op::ex2_bf16x2) {
      asm volatile("ex2.approx.ftz.bf16x2 %0, %0;" : "+r"(x[i]));
    } else if constexpr (op == Op::ffma) {
      asm volatile("fma.rn.f32 %0, %0, 0f3F000000, 0f3E800000;" : "+r"(x[i]));
    } else if constexpr (op == Op::hmul2) {
      asm volatile("mul.bf16x2 %0, %0, %0;" : "+r"(x[i]));
    } else if constexpr (op == Op::cvt_bf16x2) {
      asm volatile("cvt.rn.bf16x2.f32 %0, %0, %1;" : "+r"(x[i]) : "r"(address));
    } else if constexpr (op == Op::ldmatrix || op == Op::ldmatrix_trans) {
      u32 r[4];
      if constexpr (op == Op::ldmatrix) {
        ptx::ldmatrix_x4(r, address + i % 4 * 512);
      } else {
        ptx::ldmatrix_x4_trans(r, address + i % 4 * 512);
      }
      x[i] ^= r[0] ^ r[1] ^ r[2] ^ r[3];
    } else {
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %1, %1, %1};" ::"r"(
                       address + i % 4 * 512),
                   "r"(x[i])
                   : "memory");
    }
  }
}

// `ffmas` FFMAs beside each instruction, on registers of their own.
template <Op op, int ffmas>
__global__ void run(int rounds, long long* clocks, u32* sink) {
  __shared__ __align__(1024) char memory[16 * 2048];
  const int warp = threadIdx.x / 32;
  const u32 address =
      ptx::shared_address(memory) + warp * 2048 + static_cast<u32>(threadIdx.x % 32) * 16;
  for (int i = threadIdx.x; i < 16 * 2048 / 4; i += blockDim.x) {
    reinterpret_cast<u32*>(memory)[i] = i;
  }
  u32 x[chains];
  float y[chains];
  for (int i = 0; i < chains; ++i) {
    x[i] = __float_as_uint(-0.001F * (threadIdx.x + i));
    y[i] = 0.5F + 0.001F * i;
  }
  __syncthreads();
  const long long begin = clock64();
#pragma unroll 8  // or the loop's own instructions would count
  for (int round = 0; round < rounds; ++round) {
    apply<op>(x, address);
#pragma unroll
    for (int j = 0; j < ffmas; ++j) {
#pragma unroll
      for (int i = 0; i < chains; ++i) {
        asm volatile("fma.rn.f32 %0, %0, 0f3F000000, 0f3E800000;" : "+f"(y[i]));
      }
    }
  }
  __syncthreads();
  const long long end = clock64();
  u32 sum = 0;
  for (int i = 0; i < chains; ++i) sum ^= x[i] ^ __float_as_uint(y[i]);
  if (sum == 0x12345678U) *sink = sum;
  if (threadIdx.x == 0) clocks[blockIdx.x] = end - begin;
}

template <Op op, int ffmas>
void measure(long long* clocks, u32* sink) {
  constexpr int rounds = 4096;
  const int blocks = bench::multiprocessors();
  for (const int warps : {4, 8, 16}) {
    for (int i = 0; i < 2; ++i) {  // the first warms up
      run<op, ffmas><<<blocks, warps * 32>>>(rounds, clocks, sink);
      CHECK(cudaGetLastError());
      CHECK(cudaDeviceSynchronize());
    }
    std::vector<long long> took(blocks);
    CHECK(cudaMemcpy(took.data(), clocks, took.size() * 8, cudaMemcpyDeviceToHost));
    const double clk = static_cast<double>(*std::max_element(took.begin(), took.end()));
    const double instructions = 1.0 * rounds * chains * warps;
    bench::Row("pipes")
        .add("op", names[static_cast<int>(op)])
        .add("ffmas_each", ffmas)
        .add("warps", warps)
        .add("clk_per_warp_instruction", clk / instructions)
        .add("elements_per_clk", instructions * 32 * elements_of(op) / clk)
        .print();
  }
}

}  // namespace kda

int main() {
  using kda::Op;
  long long* clocks;
  kda::u32* sink;
  CHECK(cudaMalloc(&clocks, 1024 * 8));
  CHECK(cudaMalloc(&sink, 4));
  kda::measure<Op::ex2, 0>(clocks, sink);
  kda::measure<Op::ex2, 4>(clocks, sink);
  kda::measure<Op::ex2, 8>(clocks, sink);
  kda::measure<Op::ex2, 12>(clocks, sink);
  kda::measure<Op::tanh, 0>(clocks, sink);
  kda::measure<Op::tanh, 8>(clocks, sink);
  kda::measure<Op::ex2_bf16x2, 0>(clocks, sink);
  kda::measure<Op::ffma, 0>(clocks, sink);
  kda::measure<Op::hmul2, 0>(clocks, sink);
  kda::measure<Op::cvt_bf16x2, 0>(clocks, sink);
  kda::measure<Op::ldmatrix, 0>(clocks, sink);
  kda::measure<Op::ldmatrix, 4>(clocks, sink);
  kda::measure<Op::ldmatrix_trans, 0>(clocks, sink);
  kda::measure<Op::stmatrix, 0>(clocks, sink);
}
