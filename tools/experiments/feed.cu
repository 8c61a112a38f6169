// What brings a chain its factors, and how fast: a block takes tiles of `parts` times 8 KB into a
// ring in shared memory, and a thread hands each slot back as soon as it is full.
//   bulk             a bulk copy a part, by one thread
//   bulk_whole       one a tile, whose parts lie together
//   two_threads      a bulk copy a part, by a thread of each of two warps
//   tensor           a tensor copy a part, by one thread
//   async16          cp.async of 16 bytes by four warps
//   multicast        a cluster of two blocks, half of each part brought by each to both; a slot is
//                    handed back by arrivals that release, one a block, some 700 clocks each
//   multicast_whole  half of a tile, whose parts lie together, and relaxed arrivals
// Where `tiles` is small the source stays in the L2.
#include <cuda.h>
#include <cuda_runtime.h>

#include "base/types.cuh"
#include "bench.cuh"
#include "cluster_barrier.cuh"
#include "ptx/bulk.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mbarrier.cuh"

namespace kda {

enum class Way { bulk, bulk_whole, two_threads, tensor, async16, multicast, multicast_whole };

constexpr bool in_clusters(Way way) { return way == Way::multicast || way == Way::multicast_whole; }

constexpr int part_bytes = 8192;
constexpr int threads = 192;

KDA_DEVICE u32 cluster_rank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}

KDA_DEVICE void bulk_load_both(u32 to, const void* from, u32 bytes, u32 barrier) {
  const u16 both = 3;
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "h"(both)
      : "memory");
}

KDA_DEVICE void tensor_load(u32 to, const CUtensorMap* map, int row, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(0), "r"(row)
      : "memory");
}

template <Way way>
KDA_DEVICE void wait(u32 barrier, u32 parity) {
  if constexpr (in_clusters(way)) {
    wait_cluster(barrier, parity);
  } else {
    ptx::mbarrier_wait(barrier, parity);
  }
}

template <Way way>
KDA_DEVICE void meet() {
  if constexpr (in_clusters(way)) {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  } else {
    __syncthreads();
  }
}

struct Feed {
  const char* from;
  int heads, shards, steps, tiles, ring, parts;

  // Part `part` of a head's tile: parts in arrays of their own, or side by side.
  template <Way way>
  KDA_DEVICE const char* at(int step, int head, int part) const {
    const i64 tile = static_cast<i64>(step % tiles) * heads + head;
    if (way == Way::bulk_whole || way == Way::multicast_whole)
      return from + (tile * parts + part) * part_bytes;
    return from + (static_cast<i64>(part) * tiles * heads + tile) * part_bytes;
  }
};

// Arrivals that fill a slot.
template <Way way>
constexpr int arrivals = way == Way::async16       ? 128
                         : way == Way::two_threads ? 2
                                                   : 1;

// What this thread brings of a tile.
template <Way way>
KDA_DEVICE void bring(const Feed& feed, const CUtensorMap* map, int step, int head, u32 to,
                      u32 full) {
  const u32 bytes = feed.parts * part_bytes;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if constexpr (way == Way::bulk_whole) {
    ptx::mbarrier_arrive_expecting(full, bytes);
    ptx::bulk_load(to, feed.at<way>(step, head, 0), bytes, full);
  } else if constexpr (way == Way::multicast_whole) {
    const u32 mine = cluster_rank() * (bytes / 2);
    ptx::mbarrier_arrive_expecting(full, bytes);
    bulk_load_both(to + mine, feed.at<way>(step, head, 0) + mine, bytes / 2, full);
  } else if constexpr (way == Way::async16) {
    for (int p = 0; p < feed.parts; ++p) {
      const char* from = feed.at<way>(step, head, p) + threadIdx.x * 16;
      const u32 there = to + p * part_bytes + threadIdx.x * 16;
#pragma unroll
      for (int i = 0; i < 4; ++i) ptx::cp_async_16(there + i * 2048, from + i * 2048);
    }
    ptx::cp_async_arrive(full);
  } else {
    const int half = feed.parts / 2;
    const bool shared = way == Way::two_threads;
    const int first = shared && warp == 1 ? half : 0;
    const int end = shared && warp == 0 ? half : feed.parts;
    ptx::mbarrier_arrive_expecting(full, (end - first) * part_bytes);
    for (int p = first; p < end; ++p) {
      const char* from = feed.at<way>(step, head, p);
      if constexpr (way == Way::tensor) {
        tensor_load(to + p * part_bytes, map, static_cast<int>((from - feed.from) / 128), full);
      } else if constexpr (way == Way::multicast) {
        const u32 mine = cluster_rank() * (part_bytes / 2);
        bulk_load_both(to + p * part_bytes + mine, from + mine, part_bytes / 2, full);
      } else {
        ptx::bulk_load(to + p * part_bytes, from, part_bytes, full);
      }
    }
  }
}

template <Way way>
__global__ void __launch_bounds__(threads)
    feed_ring(Feed feed, const __grid_constant__ CUtensorMap map, long long* clocks) {
  extern __shared__ __align__(1024) char memory[];
  const u32 base = ptx::shared_address(memory);
  const u32 bytes = feed.parts * part_bytes;
  const u32 barriers = base + feed.ring * bytes;  // full, then empty, of each slot
  const int head = static_cast<int>(blockIdx.x) / feed.shards;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < feed.ring; ++i) {
      ptx::mbarrier_init(barriers + i * 16, arrivals<way>);
      ptx::mbarrier_init(barriers + i * 16 + 8, in_clusters(way) ? 2 : 1);
    }
    ptx::fence_barrier_init();
  }
  meet<way>();
  const long long begin = clock64();
  const bool takes = warp == 5 && threadIdx.x % 32 == 0;
  const bool brings = way == Way::async16       ? warp < 4
                      : way == Way::two_threads ? threadIdx.x == 0 || threadIdx.x == 32
                                                : threadIdx.x == 0;
  int slot = 0;
  u32 parity = 0;
  for (int step = 0; (takes || brings) && step < feed.steps; ++step) {
    const u32 full = barriers + slot * 16;
    if (takes) {
      wait<way>(full, parity);
      if constexpr (in_clusters(way)) {
        remote_arrive<way == Way::multicast>(mapa(full + 8, 0));
        remote_arrive<way == Way::multicast>(mapa(full + 8, 1));
      } else {
        ptx::mbarrier_arrive(full + 8);
      }
    } else {
      wait<way>(full + 8, parity ^ 1);
      bring<way>(feed, &map, step, head, base + slot * bytes, full);
    }
    if (++slot == feed.ring) {
      slot = 0;
      parity ^= 1;
    }
  }
  if (takes) clocks[blockIdx.x] = clock64() - begin;
  if (way == Way::async16 && brings) ptx::cp_async_wait_all();
  meet<way>();
}

constexpr size_t source_bytes = size_t{6} << 30;

struct Setup {
  char* data = nullptr;
  long long* clocks = nullptr;
  CUtensorMap map{};

  Setup() {
    CHECK(cudaMalloc(&data, source_bytes));
    CHECK(cudaMemset(data, 1, source_bytes));
    CHECK(cudaMalloc(&clocks, 8 * 1024));
    // Rows of 128 bytes, 64 a copy.
    const cuuint64_t sizes[2] = {64, source_bytes / 128};
    const cuuint64_t strides[1] = {128};
    const cuuint32_t box[2] = {64, 64};
    const cuuint32_t steps[2] = {1, 1};
    if (cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, data, sizes, strides, box,
                               steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                               CU_TENSOR_MAP_L2_PROMOTION_NONE,
                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
      std::fprintf(stderr, "no tensor map\n");
      std::exit(1);
    }
  }
};

template <Way way>
void measure(const Setup& setup, const char* name, const Feed& feed) {
  const int bytes = feed.parts * part_bytes;
  const int shared = feed.ring * bytes + feed.ring * 16;
  if (shared > 227 * 1024) return;
  if (size_t(feed.tiles) * size_t(feed.heads) * size_t(bytes) > source_bytes) return;
  CHECK(cudaFuncSetAttribute(feed_ring<way>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  const double ms = bench::milliseconds([&] {
    cudaLaunchConfig_t config{};
    config.gridDim = static_cast<unsigned>(feed.heads * feed.shards);
    config.blockDim = threads;
    config.dynamicSmemBytes = static_cast<size_t>(shared);
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {2, 1, 1};
    if (in_clusters(way)) {
      config.attrs = &cluster;
      config.numAttrs = 1;
    }
    CHECK(cudaLaunchKernelEx(&config, feed_ring<way>, feed, setup.map, setup.clocks));
  });
  std::vector<long long> clocks(static_cast<size_t>(feed.heads * feed.shards));
  CHECK(cudaMemcpy(clocks.data(), setup.clocks, clocks.size() * 8, cudaMemcpyDeviceToHost));
  const auto slowest = static_cast<double>(*std::max_element(clocks.begin(), clocks.end()));
  bench::Row("feed")
      .add("way", name)
      .add("heads", feed.heads)
      .add("shards", feed.shards)
      .add("tiles", feed.tiles)
      .add("ring", feed.ring)
      .add("parts", feed.parts)
      .add("clk_per_step", slowest / feed.steps)
      .add("bytes_per_clk", 1.0 * bytes * feed.steps / slowest)
      .add("us", ms * 1000)
      .print();
}

template <Way way>
void measure_all(const Setup& setup, const char* name) {
  for (const int heads : {4, 16, 32, 64}) {
    for (const int tiles : {8, 512}) {
      for (const int parts : {3, 4, 7}) {
        for (const int ring : {2, 3, 6, 8}) {
          measure<way>(setup, name, {setup.data, heads, 2, 512, tiles, ring, parts});
        }
      }
    }
  }
}

}  // namespace kda

int main() {
  CHECK(cudaFree(nullptr));
  const kda::Setup setup;
  using kda::Way;
  kda::measure_all<Way::bulk>(setup, "bulk");
  kda::measure_all<Way::bulk_whole>(setup, "bulk_whole");
  kda::measure_all<Way::two_threads>(setup, "two_threads");
  kda::measure_all<Way::tensor>(setup, "tensor");
  kda::measure_all<Way::async16>(setup, "async16");
  kda::measure_all<Way::multicast>(setup, "multicast");
  kda::measure_all<Way::multicast_whole>(setup, "multicast_whole");
  return 0;
}
