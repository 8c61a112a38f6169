// What decode's traffic reaches: tiles of f32 states read, changed and written back, in GB/s of
// both ways together.  In place or to another pool, slots in order or scattered, by depth, blocks a
// multiprocessor and cache hints through registers, by tiles and stages through a ring of bulk
// copies, on all multiprocessors or a few.  The pools together are many times the L2.
#include <functional>
#include <numeric>
#include <random>

#include "bench.cuh"
#include "rewrite.cuh"

using namespace kda;
using namespace kda::rewrite;

namespace {

constexpr i64 slot_bytes = 32 * 65536;  // 32 heads of [128, 128]
constexpr i64 all_bytes = 1024 * slot_bytes;

__global__ void fill(float* at, i64 count, float value) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    at[i] = value;
  }
}

__global__ void count_others(const float* at, i64 count, float value, unsigned long long* others) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    if (at[i] != value) atomicAdd(others, 1);
  }
}

enum class Place { in_order, scattered, apart };
constexpr const char* places[] = {"in place", "in place, scattered", "apart"};

// A kernel over tiles: how many bytes they have and what launches it.
struct Way {
  std::string name;
  int tile;
  std::function<void(const Tiles&)> launch;
  int ways = 2;           // of the traffic: reading and writing
  float expected = 2.0F;  // where all was 1
};

class Pools {
 public:
  Pools() {
    CHECK(cudaMalloc(&memory_, all_bytes));
    CHECK(cudaMalloc(&slots_, 256 * sizeof(int)));
    CHECK(cudaMallocManaged(&others_, sizeof *others_));
  }

  // Pool i of so many sequences; apart writes the one after it.
  Tiles tiles(Place place, int sequences, int i, int tile) const {
    const i64 bytes = sequences * slot_bytes;
    const int pools = static_cast<int>(all_bytes / bytes);
    Tiles t{};
    t.from = memory_ + i % pools * bytes;
    t.to = place == Place::apart ? memory_ + (i + 1) % pools * bytes : memory_ + i % pools * bytes;
    t.slots = place == Place::scattered ? slots_ : nullptr;
    t.count = bytes / tile;
    t.bytes = tile;
    t.slot_tiles = static_cast<int>(slot_bytes / tile);
    return t;
  }

  void shuffle(int sequences) {
    std::vector<int> order(sequences);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    CHECK(cudaMemcpy(slots_, order.data(), order.size() * sizeof(int), cudaMemcpyHostToDevice));
  }

  // Of one pass from all ones.
  bool right(const Way& way, Place place, int sequences) {
    fill<<<1024, 256>>>(reinterpret_cast<float*>(memory_), all_bytes / 4, 1.0F);
    const Tiles t = tiles(place, sequences, 0, way.tile);
    way.launch(t);
    *others_ = 0;
    count_others<<<1024, 256>>>(reinterpret_cast<const float*>(t.to), sequences * slot_bytes / 4,
                                way.expected, others_);
    CHECK(cudaDeviceSynchronize());
    return *others_ == 0;
  }

 private:
  char* memory_ = nullptr;
  int* slots_ = nullptr;
  unsigned long long* others_ = nullptr;
};

void measure(Pools& pools, const Way& way, Place place, int sequences) {
  constexpr int passes = 8;
  pools.shuffle(sequences);
  const bool right = way.ways < 2 || pools.right(way, place, sequences);
  const double ms = bench::milliseconds([&] {
    for (int i = 0; i < passes; ++i) way.launch(pools.tiles(place, sequences, i, way.tile));
  });
  const double us = ms * 1e3 / passes;
  bench::Row("rewrite")
      .add("sequences", sequences)
      .add("place", places[static_cast<int>(place)])
      .add("way", way.name)
      .add("us", us)
      .add("GB/s", 1e-3 * way.ways * static_cast<double>(sequences * slot_bytes) / us)
      .add("status", right ? "ok" : "wrong")
      .print();
}

// resident: blocks a multiprocessor, held down by shared memory; 0 for all that fit.
template <int threads, int depth, Hint loads, Hint stores, int which = 3, Order order = Order::runs>
Way registers_way(int resident) {
  const auto kernel = registers<threads, depth, loads, stores, which, order>;
  const int shared = resident > 0 ? 227 * 1024 / resident - 1024 : 0;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  Way way;
  way.name =
      (which == 1   ? "reads alone"
       : which == 2 ? "writes alone"
                    : "registers") +
      std::string(" threads=") + std::to_string(threads) + " depth=" + std::to_string(depth) +
      " resident=" + std::to_string(resident) + " loads=" + hint_names[static_cast<int>(loads)] +
      " stores=" + hint_names[static_cast<int>(stores)] + (order == Order::rows ? " rows" : "");
  way.tile = threads * depth * 16;
  way.launch = [=](const Tiles& t) {
    kernel<<<static_cast<unsigned>(t.count), threads, shared>>>(t);
  };
  way.ways = which == 3 ? 2 : 1;
  return way;
}

// most: of the multiprocessors, as one beside other kernels has; 0 for all.
Way ring_way(int kilobytes, int stages, int resident, Hint loads, Hint stores,
             bool neighbours = false, bool persistent = true, int most = 0) {
  const int tile = kilobytes * 1024;
  Way way;
  way.name = "ring tile=" + std::to_string(kilobytes) + " stages=" + std::to_string(stages) +
             " resident=" + std::to_string(resident) +
             " loads=" + hint_names[static_cast<int>(loads)] +
             " stores=" + hint_names[static_cast<int>(stores)] + (neighbours ? " neighbours" : "") +
             (most > 0 ? " multiprocessors=" + std::to_string(most) : "") +
             (persistent ? "" : " a block a tile");
  way.tile = tile;
  // At least what keeps further blocks away.
  const int shared = std::max(stages * tile, 226 * 1024 / (resident + 1));
  CHECK(cudaFuncSetAttribute(ring, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  const int blocks = (most > 0 ? most : bench::multiprocessors()) * resident;
  way.launch = [=](const Tiles& t) {
    CHECK(cudaFuncSetAttribute(ring, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    const auto grid = static_cast<unsigned>(persistent ? std::min<i64>(blocks, t.count) : t.count);
    ring<<<grid, consumers + 32, shared>>>(t, Ring{stages, neighbours, loads, stores});
  };
  return way;
}

Way memcpy_way() {
  Way way{"cudaMemcpyAsync", 65536, [](const Tiles& t) {
            CHECK(cudaMemcpyAsync(t.to, t.from, t.count * t.bytes, cudaMemcpyDeviceToDevice));
          }};
  way.expected = 1.0F;
  return way;
}

template <Hint loads, Hint stores>
void measure_hints(Pools& pools) {
  for (const Place place : {Place::in_order, Place::apart}) {
    measure(pools, registers_way<128, 16, loads, stores>(4), place, 256);
  }
}

void measure_registers(Pools& pools) {
  constexpr Hint s = Hint::streaming;
  measure(pools, registers_way<256, 8, s, s, 1>(0), Place::in_order, 256);
  measure(pools, registers_way<256, 8, s, s, 2>(0), Place::in_order, 256);
  // What decode does now is 128 threads, 16 loads each, by rows, 4 blocks.
  for (const Place place : {Place::in_order, Place::scattered, Place::apart}) {
    measure(pools, registers_way<128, 16, s, s, 3, Order::rows>(4), place, 256);
    measure(pools, registers_way<128, 16, s, s, 3, Order::rows>(4), place, 64);
    measure(pools, registers_way<128, 16, s, s>(4), place, 256);
  }
  for (const int resident : {1, 2, 3, 5, 6}) {
    measure(pools, registers_way<128, 16, s, s>(resident), Place::in_order, 256);
  }
  for (const int resident : {2, 4, 8, 16}) {
    measure(pools, registers_way<128, 8, s, s>(resident), Place::in_order, 256);
    measure(pools, registers_way<128, 4, s, s>(resident), Place::in_order, 256);
  }
  measure(pools, registers_way<256, 4, s, s>(0), Place::in_order, 256);
  measure(pools, registers_way<512, 1, s, s>(0), Place::in_order, 256);
  measure_hints<Hint::none, Hint::none>(pools);
  measure_hints<Hint::none, Hint::streaming>(pools);
  measure_hints<Hint::streaming, Hint::none>(pools);
  measure_hints<Hint::no_allocate, Hint::none>(pools);
  measure_hints<Hint::evict_first, Hint::none>(pools);
  measure_hints<Hint::evict_first, Hint::evict_first>(pools);
  measure_hints<Hint::evict_first, Hint::evict_last>(pools);
  measure_hints<Hint::evict_last, Hint::evict_first>(pools);
  measure_hints<Hint::unchanged, Hint::unchanged>(pools);
}

void measure_rings(Pools& pools) {
  constexpr Hint none = Hint::none;
  struct Size {
    int kilobytes, stages, resident;
  };
  for (const Size& size : {Size{64, 2, 1},
                           {64, 3, 1},
                           {32, 2, 1},
                           {32, 3, 1},
                           {32, 4, 1},
                           {32, 6, 1},
                           {16, 4, 1},
                           {16, 8, 1},
                           {16, 12, 1},
                           {32, 2, 2},
                           {32, 3, 2},
                           {16, 3, 2},
                           {16, 6, 2},
                           {16, 3, 4},
                           {8, 6, 4}}) {
    const Way way = ring_way(size.kilobytes, size.stages, size.resident, none, none);
    measure(pools, way, Place::in_order, 256);
    measure(pools, way, Place::in_order, 64);
  }
  for (const Place place : {Place::scattered, Place::apart}) {
    measure(pools, ring_way(32, 6, 1, none, none), place, 256);
    measure(pools, ring_way(16, 6, 2, none, none), place, 256);
  }
  for (const Hint loads : {none, Hint::evict_first, Hint::unchanged}) {
    for (const Hint stores : {none, Hint::evict_first, Hint::evict_last, Hint::unchanged}) {
      if (loads == none && stores == none) continue;
      measure(pools, ring_way(32, 6, 1, loads, stores), Place::in_order, 256);
    }
  }
  for (const int most : {16, 24, 36, 48, 64, 100}) {
    for (const Size& size : {Size{64, 3, 1}, {32, 6, 1}, {16, 12, 1}}) {
      measure(pools, ring_way(size.kilobytes, size.stages, 1, none, none, false, true, most),
              Place::in_order, 128);
    }
  }
  measure(pools, ring_way(32, 6, 1, none, none, true), Place::in_order, 256);
  measure(pools, ring_way(16, 6, 2, none, none, true), Place::in_order, 256);
  measure(pools, ring_way(32, 1, 3, none, none, false, false), Place::in_order, 256);
  measure(pools, ring_way(32, 1, 6, none, none, false, false), Place::in_order, 256);
  measure(pools, ring_way(16, 1, 6, none, none, false, false), Place::in_order, 256);
}

}  // namespace

int main() {
  Pools pools;
  for (const int sequences : {64, 256}) {
    measure(pools, memcpy_way(), Place::apart, sequences);
  }
  measure_registers(pools);
  measure_rings(pools);
}
