// What preparing by groups (sm90/factors) costs a chunk: a block a chunk, where nothing runs beside
// it, or groups that walk over all chunks on so many multiprocessors, where the recurrence has the
// others.  -DGROUPS=1 is the first, 4 the second.
#ifndef GROUPS
#define GROUPS 1
#endif
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  { GROUPS, GROUPS > 1 }

#include "bench.cuh"
#include "prepare_args.cuh"
#if GROUPS == 1
#include "sm90/chunk/prepare_group.cu"
#else
#include "sm90/chunk/prepare_walking.cu"
#endif

namespace {

void print(const char* how, int multiprocessors, double ms) {
  const double tiles = 1.0 * bench::heads * bench::tokens / kda::chunk;
  bench::Row("groups")
      .add("how", how)
      .add("multiprocessors", multiprocessors)
      .add("us", ms * 1e3)
      .add("us_per_chunk_and_multiprocessor", ms * 1e3 * multiprocessors / tiles)
      .print();
}

}  // namespace

int main() {
  using namespace kda;
  abi::chunk::PrepareArgs args = bench::prepare_args(chunk);
  const int shared = abi::factors::group_bytes(shape, tune.groups) * tune.groups;
#if GROUPS == 1
  CHECK(cudaFuncSetAttribute(kda_chunk_prepare_group, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             shared));
  const dim3 grid(static_cast<unsigned>(args.factors.slots), bench::heads);
  print("a block a chunk", bench::multiprocessors(), bench::milliseconds([&] {
          kda_chunk_prepare_group<<<grid, Group::threads, shared>>>(args);
        }));
#else
  CHECK(cudaFuncSetAttribute(kda_chunk_prepare_walking, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             shared));
  args.factors.ready = bench::allocate<unsigned>(args.factors.slots * bench::heads);
  for (const int blocks : {bench::multiprocessors(), 100, 84, 68}) {
    const int step = blocks * tune.groups;
    args.walk = {step % bench::heads, 0, step / bench::heads};
    print("walking groups", blocks, bench::milliseconds([&] {
            kda_chunk_prepare_walking<<<blocks, Group::threads * tune.groups, shared>>>(args);
          }));
  }
#endif
}
