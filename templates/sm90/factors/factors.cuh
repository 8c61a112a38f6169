// All steps of one chunk, in order.
#pragma once

#include "ptx/bulk.cuh"
#include "sm90/factors/solve.cuh"

namespace kda {

struct Factors : Solve {
  using Solve::Solve;

  // The buffer (its generic address and its shared one) holds raw q, k and g, visible to the whole
  // group, and Scratch::beta the write strengths; then the images, visible to all including the
  // copy engine.
  KDA_DEVICE void make(char* buffer, u32 address, const Gates& gates, int rows) const {
    const bool strong = accumulate_decays(buffer + images.ak, gates, rows);
    sum_squares(address);
    if (!__syncthreads_or(strong)) {
      build<Anchor::start>(address, {}, {});
    } else if (!__syncthreads_or(is_strong_by_middle())) {
      build<Anchor::middle>(address, {}, {});
    } else {
      score_pairs(buffer);
      __syncthreads();
      const Diagonal first = take_pairs(0);
      const Diagonal second = take_pairs(1);
      __syncthreads();
      build<Anchor::none>(address, first, second);
    }
    if (thread < keys) {
      reinterpret_cast<float*>(buffer + images.decay)[thread] =
          shared.whole[0][thread] * shared.whole[1][thread];
    }
    __syncthreads();
    solve();
    __syncthreads();
    write_ak(address + images.ak);
    write_aq(address + images.aq);
    ptx::fence_async_proxy();
    __syncthreads();
  }
};

}  // namespace kda
