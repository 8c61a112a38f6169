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
#include "prepare_args.cuh"
#include "sm80/chunk/prepare.cu"

int main() {
  using namespace kda;
  using bench::heads;
  using bench::tokens;
  constexpr abi::chunk::PrepareTuning tuning = KDA_TUNING;
  abi::chunk::PrepareArgs args = bench::prepare_args(tuning.chunk);
  const auto slots = static_cast<unsigned>(args.factors.slots);

  constexpr int shared = abi::chunk::prepare_shared_bytes(abi::Shape{}, tuning);
  CHECK(
      cudaFuncSetAttribute(kda_chunk_prepare, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  int clock_khz = 0;
  CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
  for (const float lower_bound : {-5.0F, -60.0F}) {
    args.in.lower_bound = lower_bound;
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
