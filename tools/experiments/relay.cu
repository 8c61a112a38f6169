// What it costs to hand chunks' factors from the multiprocessors that make them to those that take
// them, through the L2, without any arithmetic: makers bring raw q, k and g of a tile and store its
// image, takers bring the image and v and store o.  The bytes are those of 64 heads of 8192 tokens.
//   load, store, make   makers alone: the one, the other and both
//   take                takers alone, of images that lie in memory or in the L2
//   relay               both at once; a maker is at most `lag` tiles of its taker ahead (0: as far
//                       as it comes), and prefetches its next tile into the L2 or not; a taker
//                       discards the image that it took or not
#include <cuda_runtime.h>

#include "base/types.cuh"
#include "bench.cuh"
#include "ptx/bulk.cuh"
#include "ptx/flag.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mbarrier.cuh"

namespace kda {

constexpr int tiles = 16384;
constexpr int raw_bytes = 3 * 8192;
constexpr int image_bytes = 3 * 8192 + 2048 + 512;
constexpr int rows_bytes = 8192;  // of v or o
constexpr int groups = 4;         // that a maker works at
constexpr int ring = 6;           // tiles that a taker brings at once
constexpr int slot_bytes = image_bytes + rows_bytes;
constexpr int shared_bytes = ring * slot_bytes;
constexpr int line = 128;

struct Way {
  int slots, lag;
  bool loads, stores, prefetches, discards;
};

struct Relay : Way {
  const char* raw;  // [tiles]
  const char* v;    // [tiles]
  char* o;          // [tiles]
  char* images;     // [slots]
  u32* ready;       // [tiles] 1: the image is there
  u32* taken;       // [takers] tiles, a line apart
  int makers, takers;
};

KDA_DEVICE void copy_and_wait(u32 to, const void* from, u32 bytes, u32 barrier, u32 parity) {
  ptx::mbarrier_arrive_expecting(barrier, bytes);
  ptx::bulk_load(to, from, bytes, barrier);
  ptx::mbarrier_wait(barrier, parity);
}

// A warp is a group.
KDA_DEVICE void make(const Relay& relay, u32 memory, u32 barrier, int maker) {
  const int group = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (group >= groups) return;
  const u32 buffer = memory + group * slot_bytes;
  const int step = relay.makers * groups;
  u32 parity = 0;
  for (int tile = maker + group * relay.makers; tile < tiles; tile += step, parity ^= 1) {
    if (relay.prefetches && tile + step < tiles) {
      const char* next = relay.raw + static_cast<i64>(tile + step) * raw_bytes;
      for (int i = lane * line; i < raw_bytes; i += 32 * line) ptx::prefetch(next + i);
    }
    if (lane == 0) {
      if (relay.lag > 0) {
        const u32* taken = relay.taken + tile % relay.takers * (line / 4);
        while (static_cast<int>(ptx::acquire(taken)) + relay.lag <= tile / relay.takers) {
          __nanosleep(100);
        }
      }
      if (relay.loads) {
        copy_and_wait(buffer, relay.raw + static_cast<i64>(tile) * raw_bytes, raw_bytes,
                      barrier + group * 8, parity);
      }
      if (relay.stores) {
        ptx::bulk_store(relay.images + static_cast<i64>(tile % relay.slots) * image_bytes, buffer,
                        image_bytes);
        ptx::bulk_store_commit();
        ptx::bulk_store_wait();
        ptx::release(relay.ready + tile, 1);
      }
    }
    __syncwarp();
  }
}

// One warp brings, another takes.
KDA_DEVICE void take(const Relay& relay, u32 memory, u32 barriers, int taker) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int slot = 0;
  u32 parity = 0;
  int number = 0;
  int ready = 0;  // of this taker's tiles
  for (int tile = taker; warp < 2 && tile < tiles; tile += relay.takers, ++number) {
    const u32 full = barriers + slot * 16;
    const u32 empty = full + 8;
    const u32 there = memory + slot * slot_bytes;
    char* const image = relay.images + static_cast<i64>(tile % relay.slots) * image_bytes;
    if (warp == 0) {
      while (number == ready) {
        const int at = tile + lane * relay.takers;
        const bool is_ready = at < tiles && ptx::acquire(relay.ready + at) != 0;
        const u32 waiting = __ballot_sync(0xffffffffU, !is_ready);
        ready += waiting == 0 ? 32 : __ffs(static_cast<int>(waiting)) - 1;
      }
      ptx::mbarrier_wait(empty, parity ^ 1);
      if (lane == 0) {
        ptx::fence_async_proxy_global();
        ptx::mbarrier_arrive_expecting(full, slot_bytes);
        ptx::bulk_load(there, image, image_bytes, full);
        ptx::bulk_load(there + image_bytes, relay.v + static_cast<i64>(tile) * rows_bytes,
                       rows_bytes, full);
      }
    } else {
      ptx::mbarrier_wait(full, parity);
      for (int i = lane * line; relay.discards && i < image_bytes; i += 32 * line) {
        asm volatile("discard.global.L2 [%0], 128;" ::"l"(image + i) : "memory");
      }
      if (lane == 0) {
        ptx::bulk_store(relay.o + static_cast<i64>(tile) * rows_bytes, there + image_bytes,
                        rows_bytes);
        ptx::bulk_store_commit();
        ptx::bulk_store_wait_read();
        ptx::mbarrier_arrive(empty);
        // Without order: only the count itself counts.
        asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(relay.taken + taker * (line / 4)),
                     "r"(number + 1)
                     : "memory");
      }
    }
    __syncwarp();
    if (++slot == ring) {
      slot = 0;
      parity ^= 1;
    }
  }
}

__global__ void __launch_bounds__(groups * 32) hand_over(Relay relay) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(8) u64 words[2 * ring];
  const u32 barriers = ptx::shared_address(words);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2 * ring; ++i) ptx::mbarrier_init(barriers + i * 8, 1);
    ptx::fence_barrier_init();
  }
  __syncthreads();
  const int block = static_cast<int>(blockIdx.x);
  if (block < relay.takers) {
    take(relay, ptx::shared_address(memory), barriers, block);
  } else {
    make(relay, ptx::shared_address(memory), barriers, block - relay.takers);
  }
}

struct Memory {
  static constexpr int most_takers = 256;

  Relay relay{};

  Memory() {
    relay.raw = take(raw_bytes);
    relay.v = take(rows_bytes);
    relay.o = take(rows_bytes);
    relay.images = take(image_bytes);
    CHECK(cudaMalloc(&relay.ready, words_bytes));
    relay.taken = relay.ready + tiles;
    CHECK(
        cudaFuncSetAttribute(hand_over, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  }

  void measure(const char* what, const Way& way, int makers, int takers) const {
    Relay with = relay;
    static_cast<Way&>(with) = way;
    with.makers = makers;
    with.takers = takers;
    std::vector<double> times;
    for (int i = 0; i < 6; ++i) {
      // Without makers all is ready.
      CHECK(cudaMemset(with.ready, makers > 0 ? 0 : 1, words_bytes));
      cudaEvent_t begin, end;
      CHECK(cudaEventCreate(&begin));
      CHECK(cudaEventCreate(&end));
      CHECK(cudaEventRecord(begin));
      hand_over<<<makers + takers, groups * 32, shared_bytes>>>(with);
      CHECK(cudaEventRecord(end));
      CHECK(cudaGetLastError());
      CHECK(cudaEventSynchronize(end));
      float ms = 0;
      CHECK(cudaEventElapsedTime(&ms, begin, end));
      if (i > 0) times.push_back(ms * 1000);
    }
    const double us = bench::median(times);
    const double bytes = (with.loads ? raw_bytes : 0) + (with.stores ? image_bytes : 0) +
                         (takers > 0 ? image_bytes + 2 * rows_bytes : 0);
    bench::Row("relay")
        .add("what", what)
        .add("makers", makers)
        .add("takers", takers)
        .add("images", with.slots == tiles ? "memory" : "l2")
        .add("lag", with.lag)
        .add("prefetches", static_cast<int>(with.prefetches))
        .add("discards", static_cast<int>(with.discards))
        .add("us", us)
        .add("tb_per_s", bytes * tiles / us * 1e-6)
        .print();
  }

 private:
  static constexpr size_t words_bytes = (tiles + most_takers * (line / 4)) * sizeof(unsigned);

  static char* take(int bytes) {
    char* memory = nullptr;
    CHECK(cudaMalloc(&memory, size_t(tiles) * size_t(bytes)));
    CHECK(cudaMemset(memory, 1, size_t(tiles) * size_t(bytes)));
    return memory;
  }
};

}  // namespace kda

int main() {
  using namespace kda;
  const Memory memory;
  const int all = bench::multiprocessors();
  if (all < 64 || all > Memory::most_takers) {
    std::fprintf(stderr, "relay: %d multiprocessors, 64 to %d are served\n", all,
                 Memory::most_takers);
    return 1;
  }
  constexpr int few = 600;  // images, which stay in the L2
  for (const int makers : {all, all - 38}) {
    for (const int slots : {tiles, few}) {
      if (slots == tiles) memory.measure("load", {.slots = slots, .loads = true}, makers, 0);
      memory.measure("store", {.slots = slots, .stores = true}, makers, 0);
      memory.measure("make", {.slots = slots, .loads = true, .stores = true}, makers, 0);
    }
  }
  for (const int takers : {all, 64, 38}) {
    for (const int slots : {tiles, few}) memory.measure("take", {.slots = slots}, 0, takers);
  }
  for (const int takers : {38, 48, 60}) {
    for (const bool prefetches : {false, true}) {
      for (const int lag : {0, 8, 12, 16}) {
        for (const bool discards : {false, true}) {
          if (lag == 0 && discards) continue;
          memory.measure("relay",
                         {.slots = tiles,
                          .lag = lag,
                          .loads = true,
                          .stores = true,
                          .prefetches = prefetches,
                          .discards = discards},
                         all - takers, takers);
        }
      }
    }
  }
  return 0;
}
