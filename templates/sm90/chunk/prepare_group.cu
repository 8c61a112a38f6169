// Strategy chunk, stage 1 on sm_90: as sm80/chunk/prepare.cu, one group of warps a (chunk, value
// head).  Its image is made in shared memory (sm90/factors) and leaves by a bulk copy.
#include "abi/factors.h"
#include "base/guard.cuh"
#include "ptx/bulk.cuh"
#include "ptx/dependent.cuh"
#include "sm90/factors/factors.cuh"
#include "sm90/factors/load_alone.cuh"
#include "sm90/factors/store.cuh"
#include "sm90/stay_out.cuh"

namespace kda {

static_assert(tune.groups == 1, "a block is one group");

extern "C" __global__ void __launch_bounds__(Group::threads, (careful ? 12 : 16) / warps)
    kda_chunk_prepare_group(const __grid_constant__ Guardable<abi::chunk::PrepareArgs> given) {
  extern __shared__ __align__(1024) char shared[];

  const abi::chunk::PrepareArgs& args = unguarded(given);
  const abi::Inputs& in = args.in;
  const i64 slot = blockIdx.x;
  if (looks_before_waiting && ends_at_once<shape>(given, in)) return;
  ptx::wait_for_previous();  // before any block ends or lets others start: they need not
  if (!looks_before_waiting && ends_at_once<shape>(given, in)) return;
  if (args.lets_begin != 0) ptx::launch_dependents();
  Tile tile;
  tile.head = static_cast<int>(blockIdx.y);
  tile.slot = slot;
  tile.n = sequence_at<shape.varlen, shape.cu_seqlens_type>(in, slot, chunk);
  const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, tile.n);
  tile.begin = sequence.begin;
  tile.first = (slot - first_slot(sequence.begin, tile.n, chunk)) * chunk;
  if (tile.first < 0 || tile.first >= sequence.chunked(tune.short_tokens)) return;  // an empty slot
  const i64 left = sequence.length() - tile.first;
  tile.rows = static_cast<int>(left < chunk ? left : chunk);

  const u32 address = ptx::shared_address(shared);
  const Factors factors(
      *reinterpret_cast<Scratch*>(shared + abi::factors::buffer_bytes(shape, tune.groups)));
  const int thread = factors.thread;
  alone::load_gate(thread, address, in, tile);
  alone::load_keys(thread, address, in, tile);
  alone::load_beta(thread, factors.shared.beta, in, tile);
  const Gates gates = Gates::of(in, tile.head);
  ptx::cp_async_wait_all();
  __syncthreads();

  const bool strong = factors.accumulate_decays(shared + image.ak, gates, tile.rows);
  factors.make_rows(shared, address, strong);
  factors.make_writers(
      address, ScoreSize::of_unscaled(), [] {}, [] {});
  factors.meet();

  if (thread == 0) {
    const Leaving leaving{args.factors, address, slot * in.value_heads + tile.head};
    leaving.whole();
    ptx::bulk_store_wait();
  }
}

}  // namespace kda
