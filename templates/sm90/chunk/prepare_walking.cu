// Strategies chunk_wgmma and segments, stage 1: as prepare_group.cu, but groups walk over all tiles
// (chunk, value head), on all multiprocessors or on those that a recurrence beside them leaves.
// Then in the order in which the chains want them, and a flag is raised for each.  What a group
// wants of its next tile is on its way while it ends the one before.
#include "abi/factors.h"
#include "base/guard.cuh"
#include "ptx/bulk.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/dependent.cuh"
#include "ptx/flag.cuh"
#include "sm90/factors/factors.cuh"
#include "sm90/factors/incoming.cuh"
#include "sm90/factors/load.cuh"
#include "sm90/factors/stagger.cuh"
#include "sm90/factors/store.cuh"
#include "sm90/factors/walk.cuh"
#include "sm90/stay_out.cuh"

namespace kda {

extern "C" __global__ void __launch_bounds__(Group::threads* tune.groups, 1)
    kda_chunk_prepare_walking(const __grid_constant__ Guardable<abi::chunk::PrepareArgs> given) {
  extern __shared__ __align__(1024) char shared[];

  const abi::chunk::PrepareArgs& args = unguarded(given);
  const abi::Inputs& in = args.in;
  char* const buffer = shared + Group::number() * abi::factors::group_bytes(shape, tune.groups);
  const u32 address = ptx::shared_address(buffer);
  Factors factors(
      *reinterpret_cast<Scratch*>(buffer + abi::factors::buffer_bytes(shape, tune.groups)));
  const int thread = factors.thread;
  const int group = Group::number() * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  const auto flag = [&](const Tile& tile) {
    return args.factors.ready + tile.head * args.factors.slots + tile.slot;
  };
  if constexpr (tune.flags != 0 && !shape.varlen) {
    // Only to the L2, where what is written later arrives, too.  Not in a pack: cu_seqlens would
    // be read, which may still be written.
    const Walk soon(args, group);
    if (factors.warp == 2 && !soon.is_over()) prefetch_tile(in, soon.here());
  }
  if (looks_before_waiting && ends_at_once<shape>(given, in)) return;
  ptx::wait_for_previous();  // before any block ends or lets others start: they need not
  if (!looks_before_waiting && ends_at_once<shape>(given, in)) return;
  Walk walk(args, group);
  Incoming raw;
  const auto load = [&] {  // of the tile where the walk stands
    if (walk.is_over()) return;
    load_gate(thread, factors.shared, in, walk.here());
    load_keys(thread, address, in, walk.here());
  };
  const auto begin = [&] {
    load();
    if (!walk.is_over()) raw.load(thread, in, walk.here());
  };
  // Chains wait for the first groups' tiles, whose rows take 3 us if all groups load at once.
  constexpr bool all_at_once = tune.flags == 0;
  if (all_at_once || Group::number() == 0) begin();
  if constexpr (tune.flags != 0) {
    // A group lowers what it will raise and no other's, as blocks may begin long after each other.
    // The recurrence starts once all have come past here.
    if (factors.warp == 3) walk.each([&](const Tile& tile) { *flag(tile) = 0; });
    __threadfence();
    __syncthreads();
  }
  // With more than a tile each the next stage's blocks had better begin all at once: as one by one
  // multiprocessors fall free h64 takes 465 us for 427, though each stage alone takes what it did.
  if (tune.flags != 0 || in.value_heads * args.factors.slots <= tune.groups * gridDim.x) {
    ptx::launch_dependents();
  }

  Departures departures(factors.shared.departure, args.factors, address);
  const bool leads = factors.role() == 3 && thread % 32 == 0;
  if (leads) departures.begin();
  if (!all_at_once && Group::number() != 0) begin();
  Stagger::wait();
  bool first = true;
  if (walk.is_over()) Stagger::pass();
  ptx::cp_async_wait_all();
  factors.meet();
#pragma unroll 1
  while (!walk.is_over()) {
    const bool strong = factors.accumulate_decays(raw, in.lower_bound, walk.here().rows);
    if (leads) {
      const Tile tile = walk.here();
      departures.take(tile.slot * in.value_heads + tile.head, flag(tile));
    }
    walk.next();
    if (first) Stagger::pass();
    if (leads) ptx::bulk_store_wait_read();
    factors.make_rows(buffer, address, strong);
    if (!walk.is_over()) raw.load(thread, in, walk.here());
    const auto meanwhile = [&] {
      if (factors.role() == 2 && (args.walk.ahead != 0 || first) && !walk.is_over()) {
        prefetch_tile(in, walk.here());
      }
      if (leads) departures.rows();
    };
    factors.make_writers(address, kda::ScoreSize::of_unscaled(), meanwhile, load);
    ptx::cp_async_wait_all();
    factors.meet();
    if (leads) departures.writers();
    first = false;
  }
  if (leads) departures.end();
}

}  // namespace kda
