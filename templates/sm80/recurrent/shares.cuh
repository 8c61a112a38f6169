// Sums over the lanes that share columns, of which each ends with its share.  In each round half of
// the lanes give away one half of what they have and keep the other, so that 8 sums over 8 lanes
// take 7 shuffles, where 24 would tell all sums to all.
#pragma once

#include "base/types.cuh"

namespace kda::recurrent {

// Of `count` sums over `lanes` lanes, each `neighbour` lanes from the next: `own` are a lane's, the
// same as `sharers` others', those of the first half of the sums in the first half of the lanes.
template <int count, int lanes, int neighbour>
struct Shares {
  static constexpr int own = count > lanes ? count / lanes : 1;
  static constexpr int sharers = lanes * own / count;
  static_assert(count % 2 == 0 && lanes * own % count == 0, "halves of halves");

  // part: this lane's number among them.  Its sums become the first `own`.  By template, as nvcc
  // does not unroll loops whose bounds change from round to round.
  template <int left = count, int step = lanes / 2>
  static KDA_DEVICE void add(float (&x)[count], int part) {
    if constexpr (step > 0 && left > own) {
      const bool upper = (part & step) != 0;
#pragma unroll
      for (int i = 0; i < left / 2; ++i) {
        const float gives = upper ? x[i] : x[i + left / 2];
        const float keeps = upper ? x[i + left / 2] : x[i];
        x[i] = keeps + __shfl_xor_sync(0xffffffffU, gives, step * neighbour);
      }
      add<left / 2, step / 2>(x, part);
    } else if constexpr (step > 0) {
#pragma unroll
      for (int i = 0; i < own; ++i) x[i] += __shfl_xor_sync(0xffffffffU, x[i], step * neighbour);
      add<left, step / 2>(x, part);
    }
  }

  // Which sum is a lane's first.
  static KDA_DEVICE int first(int part) { return part / sharers * own; }

  // x of the lane that has the sum as far into the other half.
  static KDA_DEVICE float other_half(float x) {
    return __shfl_xor_sync(0xffffffffU, x, lanes / 2 * neighbour);
  }

  // Element `sum % own` of the lane whose share has that sum.
  static KDA_DEVICE float from(const float (&x)[own], int sum) {
    const int owner = sum / own * sharers;
    if constexpr (neighbour == 1) return __shfl_sync(0xffffffffU, x[sum % own], owner, lanes);
    const int lane = static_cast<int>(threadIdx.x) % neighbour + owner * neighbour;
    return __shfl_sync(0xffffffffU, x[sum % own], lane);
  }
};

}  // namespace kda::recurrent
