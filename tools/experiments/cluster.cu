// What distributed shared memory gives a cluster of blocks that share one head.
//   occupancy  clusters of 1 to 16 with 100 to 220 KB a block that fit the device at once
//   arrive     a remote mbarrier arrive, there and back, halved: release and relaxed
//   push       cp.async.bulk shared::cta -> shared::cluster, complete_tx on the receiver's barrier:
//              latency of one (there and back, halved), and bytes a clock with up to `depth` in
//              flight while every block pushes to its partner and takes from it
//   scatter    the same bytes by st.async, 16 a thread
#include <cooperative_groups.h>

#include "base/types.cuh"
#include "bench.cuh"
#include "cluster_barrier.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mbarrier.cuh"

namespace kda {

namespace cg = cooperative_groups;

KDA_DEVICE void push(u32 to, u32 from, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(to),
      "r"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

KDA_DEVICE void store_async(u32 to, u32 value, u32 barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %1, %1, %1}, "
      "[%2];" ::"r"(to),
      "r"(value), "r"(barrier)
      : "memory");
}

KDA_DEVICE void arrive_expecting(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

constexpr int max_bytes = 26 * 1024;
constexpr int max_depth = 4;
constexpr int shared_bytes = 1024 + (1 + max_depth) * max_bytes;

enum class Way { arrive, relaxed, push, scatter };

struct Block {
  u32 full, empty;    // barriers, max_depth of each
  u32 source, slots;  // slots: max_depth of them
  u32 rank, partner;  // in the cluster; partners push to each other
};

KDA_DEVICE Block set_up(char* memory) {
  const u32 at = ptx::shared_address(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2 * max_depth; ++i) ptx::mbarrier_init(at + i * 8, 1);
    ptx::fence_barrier_init();
  }
  for (int i = threadIdx.x; i < max_bytes / 4; i += blockDim.x) {
    reinterpret_cast<u32*>(memory + 1024)[i] = i;
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  const auto cluster = cg::this_cluster();
  cluster.sync();
  const u32 rank = cluster.block_rank();
  return {at,        at + max_depth * 8,
          at + 1024, at + 1024 + max_bytes,
          rank,      rank ^ (cluster.num_blocks() / 2)};
}

// The lower of two partners sends, and the other answers once it has everything.
template <Way way>
__global__ void round_trip(int rounds, int bytes, long long* clocks) {
  extern __shared__ __align__(1024) char memory[];
  const Block block = set_up(memory);
  const bool first = block.rank < block.partner;
  const u32 their_slot = mapa(block.slots, block.partner);
  const u32 their_barrier = mapa(block.full, block.partner);
  if (threadIdx.x == 0) {
    const auto send = [&] {
      if constexpr (way == Way::push) {
        push(their_slot, block.source, bytes, their_barrier);
      } else {
        remote_arrive<way == Way::arrive>(their_barrier);
      }
    };
    const long long begin = clock64();
    for (int i = 0; i < rounds; ++i) {
      if constexpr (way == Way::push) arrive_expecting(block.full, bytes);
      if (first) send();
      wait_cluster(block.full, i & 1);
      if (!first) send();
    }
    clocks[blockIdx.x] = clock64() - begin;
  }
  cg::this_cluster().sync();
}

// Partners send to each other, `depth` slots ahead: one thread takes, the others send.
template <Way way>
__global__ void stream(int rounds, int bytes, int depth, long long* clocks) {
  extern __shared__ __align__(1024) char memory[];
  const Block block = set_up(memory);
  const bool takes = threadIdx.x == 0;
  if (takes) {
    for (int i = 0; i < depth; ++i) arrive_expecting(block.full + i * 8, bytes);
  }
  cg::this_cluster().sync();
  if (takes) {
    const long long begin = clock64();
    for (int i = 0; i < rounds; ++i) {
      const int slot = i % depth;
      wait_cluster(block.full + slot * 8, i / depth & 1);
      if (i + depth >= rounds) continue;
      arrive_expecting(block.full + slot * 8, bytes);
      remote_arrive<false>(mapa(block.empty + slot * 8, block.partner));
    }
    clocks[blockIdx.x] = clock64() - begin;
  } else if (threadIdx.x >= 32 && (way == Way::scatter || threadIdx.x == 32)) {
    for (int i = 0; i < rounds; ++i) {
      const int slot = i % depth;
      if (i >= depth) wait_cluster(block.empty + slot * 8, i / depth + 1 & 1);
      const u32 to = mapa(block.slots + slot * max_bytes, block.partner);
      const u32 barrier = mapa(block.full + slot * 8, block.partner);
      if constexpr (way == Way::push) {
        push(to, block.source, bytes, barrier);
      } else {
        for (int at = (threadIdx.x - 32) * 16; at < bytes; at += 128 * 16) {
          store_async(to + at, at, barrier);
        }
      }
    }
  }
  cg::this_cluster().sync();
}

struct Launch {
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute attribute = {};

  Launch(int blocks, int cluster, int bytes) {
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(160);
    config.dynamicSmemBytes = bytes;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  Launch(const Launch&) = delete;
};

template <class Kernel>
void allow(Kernel* kernel, int bytes) {
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
}

int clusters_at_once(int cluster, int bytes) {
  int count = 0;
  allow(stream<Way::push>, bytes);
  Launch launch(cluster, cluster, bytes);
  if (cudaOccupancyMaxActiveClusters(&count, stream<Way::push>, &launch.config) != cudaSuccess) {
    cudaGetLastError();  // a cluster that never fits is an answer
    return 0;
  }
  return count;
}

template <class... Parameters, class... Args>
double worst_clocks(void (*kernel)(Parameters...), int blocks, int cluster, long long* clocks,
                    Args... args) {
  allow(kernel, shared_bytes);
  Launch launch(blocks, cluster, shared_bytes);
  for (int i = 0; i < 2; ++i) {  // the first warms up
    CHECK(cudaLaunchKernelEx(&launch.config, kernel, static_cast<Parameters>(args)...));
    CHECK(cudaDeviceSynchronize());
  }
  std::vector<long long> took(blocks);
  CHECK(cudaMemcpy(took.data(), clocks, took.size() * 8, cudaMemcpyDeviceToHost));
  return static_cast<double>(*std::max_element(took.begin(), took.end()));
}

}  // namespace kda

int main() {
  using namespace kda;
  long long* clocks;
  CHECK(cudaMalloc(&clocks, 1024 * 8));
  constexpr int rounds = 1000;
  for (const int cluster : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
    for (const int kilobytes : {100, 200, 220}) {
      const int count = clusters_at_once(cluster, kilobytes * 1024);
      bench::Row("occupancy")
          .add("cluster", cluster)
          .add("shared_kb", kilobytes)
          .add("clusters_at_once", count)
          .add("blocks_at_once", count * cluster)
          .print();
    }
  }
  for (const int cluster : {2, 4, 8}) {
    const int all = clusters_at_once(cluster, shared_bytes) * cluster;
    for (const int blocks : {cluster, all}) {
      const auto one_way = [&](auto* kernel, int bytes) {
        return worst_clocks(kernel, blocks, cluster, clocks, rounds, bytes, clocks) / rounds / 2;
      };
      bench::Row("arrive")
          .add("cluster", cluster)
          .add("blocks", blocks)
          .add("clk_release", one_way(round_trip<Way::arrive>, 0))
          .add("clk_relaxed", one_way(round_trip<Way::relaxed>, 0))
          .print();
      for (const int bytes : {512, 8 * 1024, 16 * 1024, 26 * 1024}) {
        bench::Row row("push");
        row.add("cluster", cluster)
            .add("blocks", blocks)
            .add("bytes", bytes)
            .add("clk_one_way", one_way(round_trip<Way::push>, bytes));
        const auto rate = [&](auto* kernel, int depth) {
          return bytes * rounds /
                 worst_clocks(kernel, blocks, cluster, clocks, rounds, bytes, depth, clocks);
        };
        for (const int depth : {1, 2, 4}) {
          const std::string ahead = std::to_string(depth);
          row.add(("push_bytes_per_clk_" + ahead).c_str(), rate(stream<Way::push>, depth));
          row.add(("scatter_bytes_per_clk_" + ahead).c_str(), rate(stream<Way::scatter>, depth));
        }
        row.print();
      }
    }
  }
}
