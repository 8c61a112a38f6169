// What the other warps of a block of the carry stage bring and take away: factors and rows of o.
#pragma once

#include "abi/segments.h"
#include "base/types.cuh"
#include "ptx/bulk.cuh"
#include "ptx/shared_words.cuh"
#include "sm90/chunk_wgmma/producer.cuh"
#include "sm90/chunk_wgmma/rows.cuh"
#include "sm90/segments/walk_part.cuh"

namespace kda {

// Factors, and rows of o if they are wanted: these come and go until consumers say that nothing
// more is added to them; by hand, all.
KDA_DEVICE void bring(const Chain::Ring& ring, const abi::segments::Args& args, const Task& task,
                      bool by_engine, bool brings_rows, int warp) {
  if (!brings_rows && warp != 0) return;
  const auto left = [&] { return static_cast<int>(ptx::ld_shared_u32(stop_of(ring))); };
  if (warp == 0) {
    if (threadIdx.x % 32 != 0) return;
    const int fed =
        chunk_wgmma::feed_factors<Chain>(ring, args.chain, task, [&] { return left() != 0; });
    int loaded = fed;
    if (by_engine && left() != 0) {
      // Rows come a chunk late, and stop where they are told: perhaps past the last factors.
      static_assert(!Chain::maps_rows || Chain::stages > 2);
      loaded = smaller(task.chunks - left() + Chain::stages - 1, task.chunks);
      for (int i = fed; i < loaded; ++i) ptx::mbarrier_arrive(ring.full({i % Chain::stages, 0}));
    }
    land(ring, larger(fed, loaded));
  } else if (by_engine) {
    if (warp > 1) return;
    const chunk_wgmma::EngineRows<Chain> rows(args.rows, task);
    chunk_wgmma::move_rows_by_engine<Chain>(ring, rows, task.chunks, [&](int number) {
      return left() != 0 && number >= task.chunks - left();
    });
    if (rows.leads()) ptx::bulk_store_wait();  // another turn may bring them again
  } else {
    const abi::Tensor& o = args.chain.out.o;
    const bool vectored = chunk_wgmma::moves_more_than_one<Chain>(o);
    chunk_wgmma::Rows<Chain> from(o, task, warp - 1, vectored), to(o, task, warp - 1, vectored);
    chunk_wgmma::move_rows_by_hand<Chain>(ring, {}, from, to, task.chunks);
  }
}

}  // namespace kda
