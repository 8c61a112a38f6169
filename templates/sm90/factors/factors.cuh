// All steps of one chunk, in order.
#pragma once

#include "ptx/bulk.cuh"
#include "sm90/factors/pairs.cuh"
#include "tile/decay.cuh"

namespace kda {

struct Factors : Pairs {
  using Pairs::Pairs;

  // The buffer (its generic address and its shared one) holds raw q and k, Scratch the decays and
  // write strengths (accumulate_decays, which says whether they are strong), all visible to the
  // whole group; then Kd, Qd and the decay, visible to all including the copy engine, and the
  // scores.
  KDA_DEVICE void make_rows(char* buffer, u32 address, bool strong) const {
    sum_squares(address);
    if (!any(strong)) {
      build<Anchor::start>(address, {});
    } else if (!any(is_strong_by_middle())) {
      build<Anchor::middle>(address, {});
    } else {
      score_pairs(buffer);
      meet();
      const Diagonal sums = take_pairs();
      meet();
      build<Anchor::none>(address, sums);
    }
    if (thread < keys) {
      reinterpret_cast<float*>(buffer + image.decay)[tile::decay_place(thread)] =
          shared.decays.whole[0][thread] * shared.decays.whole[1][thread];
    }
    ptx::fence_async_proxy();
    meet();
  }
};

}  // namespace kda
