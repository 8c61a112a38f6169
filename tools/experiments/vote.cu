// What strategy chunk's prepare stage costs a chunk, and what its vote on the gate's range saves: a
// chunk whose decay over 8 tokens stays above 1e-30 takes the short path through the scores, any
// other the exact halving path.  The gate's lower bound decides which: -5 log units a token never
// leave the short path with these inputs, -60 nearly always do.
#ifndef CHUNK
#define CHUNK 32
#endif
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  { CHUNK, 8 * CHUNK }

#include "bench.cuh"
#include "sm80/chunk/prepare.cu"

namespace {

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

u16* normals(long long count) {
  u16* memory = allocate<u16>(count);
  fill<<<1024, 256>>>(memory, count);
  CHECK(cudaGetLastError());
  return memory;
}

}  // namespace

int main() {
  using namespace kda;
  constexpr int tokens = 8192;
  constexpr int heads = 64;
  constexpr int K = 128;
  constexpr long long rows = 1LL * tokens * heads;
  constexpr abi::chunk::PrepareTuning tuning = KDA_TUNING;
  constexpr int slots = tokens / tuning.chunk + 1;
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
  const long long tiles = 1LL * slots * heads;
  args.factors.kd = allocate<u16>(tiles * tuning.chunk * K);
  args.factors.qd = allocate<u16>(tiles * tuning.chunk * K);
  args.factors.ak = allocate<u16>(tiles * tuning.chunk * K);
  args.factors.aq = allocate<u16>(tiles * tuning.chunk * 64);
  args.factors.decay = allocate<float>(tiles * K);

  constexpr int shared = abi::chunk::prepare_shared_bytes(abi::Shape{}, tuning);
  CHECK(
      cudaFuncSetAttribute(kda_chunk_prepare, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  int clock_khz = 0;
  CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
  for (const float lower_bound : {-5.0F, -60.0F}) {
    in.lower_bound = lower_bound;
    const double ms = bench::milliseconds(
        [&] { kda_chunk_prepare<<<dim3(slots, heads), tuning.prepare_threads, shared>>>(args); });
    const double chunks_a_multiprocessor =
        1.0 * heads * tokens / tuning.chunk / bench::multiprocessors();
    bench::Row("prepare")
        .add("path", lower_bound > -10 ? "voted short" : "exact")
        .add("chunk", tuning.chunk)
        .add("heads", heads)
        .add("us", ms * 1e3)
        .add("clk_per_16_tokens_and_multiprocessor",
             ms * clock_khz / chunks_a_multiprocessor * 16 / tuning.chunk)
        .print();
  }
}
