// Strategy chunk_wgmma, stage 1 where the recurrence runs beside it: as prepare_group.cu, but some
// multiprocessors' groups walk over all tiles (chunk, value head) in the order in which the chains
// want them, and raise a flag for each.  While a group works on a tile its next one comes into the
// L2; shared memory for it is free as soon as the image has been read from there.
#include "abi/factors.h"
#include "ptx/barrier.cuh"
#include "ptx/bulk.cuh"
#include "ptx/dependent.cuh"
#include "ptx/flag.cuh"
#include "sm90/factors/factors.cuh"
#include "sm90/factors/store.cuh"
#include "sm90/factors/walk.cuh"

namespace kda {

extern "C" __global__ void __launch_bounds__(abi::factors::threads* tune.groups, 1)
    kda_chunk_prepare_beside(const __grid_constant__ abi::chunk::PrepareArgs args) {
  extern __shared__ __align__(1024) char shared[];

  const abi::Inputs& in = args.in;
  char* const buffer = shared + Group::number() * abi::factors::group_bytes(shape);
  const u32 address = ptx::shared_address(buffer);
  Factors factors(*reinterpret_cast<Scratch*>(buffer + abi::factors::buffer_bytes(shape)));
  const int thread = factors.thread;
  const int group = Group::number() * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  const auto flag = [&](const Tile& tile) {
    return args.factors.ready + tile.head * args.factors.slots + tile.slot;
  };
  ptx::wait_for_previous();  // before any block ends or lets others start: they need not
  // Each flag falls before the recurrence can start: it does once all blocks have come past here.
  Walk::for_each(in, args.walk, group, tune.groups * static_cast<int>(gridDim.x), thread,
                 [&](const Tile& tile) { *flag(tile) = 0; });
  __threadfence();
  __syncthreads();
  ptx::launch_dependents();

  const bool leads = thread == abi::factors::threads - 32;  // of warp 3
  Walk walk(in, args.walk, group);
  if (!walk.is_over()) {
    load_keys(thread, address, in, walk.here());
    load_gate(thread, address, in, walk.here());
  }
  // At first one group works and the others wait until it has its rows: the chains' first chunks
  // are ready sooner, and later on the groups do not all want the same at once.
  constexpr u32 block = abi::factors::threads * tune.groups;
  const u32 number = 1 + tune.groups;  // of the barrier; each group has one of its own below
  bool leads_block = tune.groups > 1 && Group::number() == 0;
  if (tune.groups > 1 && !leads_block) ptx::barrier_wait(number, block);
  if (leads_block && walk.is_over()) ptx::barrier_arrive(number, block);
#pragma unroll 1
  while (!walk.is_over()) {
    const Tile tile = walk.here();
    const Leaving leaving{args.factors, address, tile.slot * in.value_heads + tile.head};
    {
      const Gates gates = Gates::of(in, tile.head);
      load_beta(thread, factors.shared.beta, in, tile);
      ptx::cp_async_wait_all();
      Group::meet();
      Walk later = walk;
      later.next();
      if (!later.is_over()) prefetch_tile(thread, in, later.here());
      factors.make_rows(buffer, address, gates, tile.rows);
      if (leads_block) ptx::barrier_arrive(number, block);
      leads_block = false;
    }
    walk.next();
    const auto rows_leave = [&] {
      if (!leads) return;
      leaving.rows();
      ptx::bulk_store_wait_read();
    };
    factors.make_writers(address, rows_leave, [&] {
      if (!walk.is_over()) load_keys(thread, address, in, walk.here());
    });
    if (leads) {
      leaving.writers();
      ptx::bulk_store_wait_read();
    }
    Group::meet();
    if (!walk.is_over()) load_gate(thread, address, in, walk.here());
    if (leads) {
      ptx::bulk_store_wait();
      ptx::fence_async_proxy_global();
      ptx::release(flag(tile), 1);
    }
  }
}

}  // namespace kda
