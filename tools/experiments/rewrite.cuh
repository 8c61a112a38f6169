// Two ways to rewrite tiles of f32 states in global memory: through registers, a block a tile, and
// through a ring of bulk copies.  Every element x becomes 3 - x: a multiply-add an element, as
// cheap as decode's, and two passes restore what was.
#pragma once

#include "base/types.cuh"
#include "ptx/bulk.cuh"
#include "ptx/mbarrier.cuh"

namespace kda::rewrite {

enum class Hint { none, streaming, no_allocate, evict_first, evict_last, unchanged };
constexpr const char* hint_names[] = {"none",        "streaming",  "no_allocate",
                                      "evict_first", "evict_last", "unchanged"};

// Where tile i is read and written: as one of many tiles of a slot, which lie anywhere.
struct Tiles {
  const char* from;
  char* to;
  const int* slots;  // null: in order
  i64 count;
  int bytes;
  int slot_tiles;

  KDA_DEVICE i64 offset(i64 tile) const {
    if (slots == nullptr) return tile * bytes;
    return (slots[tile / slot_tiles] * static_cast<i64>(slot_tiles) + tile % slot_tiles) * bytes;
  }
};

KDA_DEVICE u64 policy(Hint hint) {
  u64 r = 0;
  if (hint == Hint::evict_first) {
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(r));
  } else if (hint == Hint::evict_last) {
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(r));
  } else {
    asm volatile("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(r));
  }
  return r;
}

KDA_DEVICE float4 rewritten(float4 x) {
  return make_float4(3.0F - x.x, 3.0F - x.y, 3.0F - x.z, 3.0F - x.w);
}

#define KDA_LOAD(instruction)                                            \
  asm volatile("ld.global" instruction ".v4.f32 {%0, %1, %2, %3}, [%4];" \
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)              \
               : "l"(from))
template <Hint hint>
KDA_DEVICE float4 load(const void* from, u64 how) {
  float4 x;
  if constexpr (hint == Hint::none) {
    KDA_LOAD("");
  } else if constexpr (hint == Hint::streaming) {
    KDA_LOAD(".cs");
  } else if constexpr (hint == Hint::no_allocate) {
    KDA_LOAD(".L1::no_allocate");
  } else {
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "l"(from), "l"(how));
  }
  return x;
}
#undef KDA_LOAD

#define KDA_STORE(instruction)                                                                \
  asm volatile("st.global" instruction ".v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x.x), \
               "f"(x.y), "f"(x.z), "f"(x.w)                                                   \
               : "memory")
template <Hint hint>
KDA_DEVICE void store(void* to, float4 x, u64 how) {
  if constexpr (hint == Hint::none) {
    KDA_STORE("");
  } else if constexpr (hint == Hint::streaming) {
    KDA_STORE(".cs");
  } else if constexpr (hint == Hint::no_allocate) {
    KDA_STORE(".L1::no_allocate");
  } else {
    asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "f"(x.x),
                 "f"(x.y), "f"(x.z), "f"(x.w), "l"(how)
                 : "memory");
  }
}
#undef KDA_STORE

enum class Order {
  runs,  // an instruction of a block is one run of memory
  rows,  // as decode's: of a warp's instruction 8 lanes share a row of 512 bytes, 4 rows
};

// Byte i * 16 of a thread's share of a tile of `threads * depth * 16`.
template <int threads, int depth, Order order>
KDA_DEVICE int place_of(int i) {
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (order == Order::runs) return (i * threads + thread) * 16;
  const int lane = thread % 32;
  return (thread / 32 * depth + i / 4 * 4 + lane / 8) * 512 + i % 4 * 128 + lane % 8 * 16;
}

// A block a tile, `depth` loads of 16 bytes in flight a thread; which: 1 reads, 2 writes, 3 both.
template <int threads, int depth, Hint loads, Hint stores, int which = 3, Order order = Order::runs>
__global__ void __launch_bounds__(threads) registers(const __grid_constant__ Tiles tiles) {
  static_assert(order == Order::runs || depth % 4 == 0);
  const i64 at = tiles.offset(blockIdx.x);
  const u64 load_policy = loads >= Hint::evict_first ? policy(loads) : 0;
  const u64 store_policy = stores >= Hint::evict_first ? policy(stores) : 0;
  float4 x[depth];
#pragma unroll
  for (int i = 0; i < depth; ++i) {
    x[i] = make_float4(1.0F, 1.0F, 1.0F, 1.0F);
    if (which & 1)
      x[i] = load<loads>(tiles.from + at + place_of<threads, depth, order>(i), load_policy);
  }
#pragma unroll
  for (int i = 0; i < depth; ++i) {
    const float4 y = rewritten(x[i]);
    // Of reads alone a store that never happens.
    if ((which & 2) || y.x == 12345.0F) {
      store<stores>(tiles.to + at + place_of<threads, depth, order>(i), y, store_policy);
    }
  }
}

struct Ring {
  int stages;       // tiles of a block's shared memory
  bool neighbours;  // the block's tiles lie beside each other; else they are a grid apart
  Hint loads, stores;
};

constexpr int consumers = 256;

KDA_DEVICE void hinted_load(u32 to, const void* from, u32 bytes, u32 barrier, u64 how) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(how)
      : "memory");
}

KDA_DEVICE void hinted_store(void* to, u32 from, u32 bytes, u64 how) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to),
      "r"(from), "r"(bytes), "l"(how)
      : "memory");
}

// One thread brings tiles and takes them away, `consumers` others rewrite them in shared memory.
__global__ void __launch_bounds__(consumers + 32)
    ring(const __grid_constant__ Tiles tiles, const __grid_constant__ Ring how) {
  extern __shared__ __align__(128) char memory[];
  __shared__ __align__(8) u64 barriers[2][16];  // a tile has come; it is rewritten
  const auto address = [](const void* at) {
    return static_cast<u32>(__cvta_generic_to_shared(at));
  };
  if (threadIdx.x == 0) {
    for (int i = 0; i < how.stages; ++i) {
      ptx::mbarrier_init(address(&barriers[0][i]), 1);
      ptx::mbarrier_init(address(&barriers[1][i]), consumers);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  const i64 share = (tiles.count + gridDim.x - 1) / gridDim.x;
  const i64 first = how.neighbours ? blockIdx.x * share : blockIdx.x;
  const i64 step = how.neighbours ? 1 : gridDim.x;
  i64 mine = how.neighbours ? tiles.count - first : (tiles.count - first + step - 1) / step;
  if (how.neighbours && mine > share) mine = share;

  if (threadIdx.x >= consumers) {
    if (threadIdx.x > consumers) return;
    const u64 load_policy = policy(how.loads);
    const u64 store_policy = policy(how.stores);
    for (i64 i = 0; i < mine + how.stages; ++i) {
      const int slot = static_cast<int>(i % how.stages);
      const u32 place = address(memory) + slot * tiles.bytes;
      if (i >= how.stages && i - how.stages < mine) {
        ptx::mbarrier_wait(address(&barriers[1][slot]), (i / how.stages - 1) & 1);
        char* to = tiles.to + tiles.offset(first + (i - how.stages) * step);
        if (how.stores == Hint::none) {
          ptx::bulk_store(to, place, tiles.bytes);
        } else {
          hinted_store(to, place, tiles.bytes, store_policy);
        }
        ptx::bulk_store_commit();
        if (i < mine) ptx::bulk_store_wait_read();
      }
      if (i >= mine) continue;
      const u32 barrier = address(&barriers[0][slot]);
      const char* from = tiles.from + tiles.offset(first + i * step);
      ptx::mbarrier_arrive_expecting(barrier, tiles.bytes);
      if (how.loads == Hint::none) {
        ptx::bulk_load(place, from, tiles.bytes, barrier);
      } else {
        hinted_load(place, from, tiles.bytes, barrier, load_policy);
      }
    }
    ptx::bulk_store_wait();
    return;
  }
  for (i64 i = 0; i < mine; ++i) {
    const int slot = static_cast<int>(i % how.stages);
    auto* tile = reinterpret_cast<float4*>(memory + slot * tiles.bytes);
    ptx::mbarrier_wait(address(&barriers[0][slot]), (i / how.stages) & 1);
#pragma unroll 4
    for (int j = static_cast<int>(threadIdx.x); j < tiles.bytes / 16; j += consumers) {
      tile[j] = rewritten(tile[j]);
    }
    ptx::fence_async_proxy();
    ptx::mbarrier_arrive(address(&barriers[1][slot]));
  }
}

}  // namespace kda::rewrite
