// The lengths of the rows of q and k, of which each warp of a group has a slab of the channels.
#pragma once

#include "sm90/factors/solve.cuh"
#include "sm90/factors/squares.cuh"
#include "sm90/slabs/load.cuh"

namespace kda::slabs {

struct Lengths : Solve {
  slabs::Scratch& shared;  // the base's, which is this where any of it is used

  KDA_DEVICE explicit Lengths(kda::Scratch& scratch)
      : Solve(scratch), shared(reinterpret_cast<slabs::Scratch&>(scratch)) {}

  // This lane's row of the warp's raw k, first half and 16 channels.
  using Raw = tile::Place<Half>;
  KDA_DEVICE Raw raw() const {
    const u32 l = static_cast<u32>(thread) % 32;
    return {rows_of(shared.k, warp) + Half::at(l % 16, l / 16 * 8)};
  }
  // Of a half and 16 channels of it; behind it lies g as far as before it q.
  static constexpr u32 apart = sizeof(Scratch::k);
  static KDA_DEVICE u32 piece(Raw raw, int half, int ks) {
    return raw.at(0, ks * 16) + half * Half::bytes;
  }

  // The warp's share of the squares.
  KDA_DEVICE void sum_squares() const {
    const tile::Lane lane = this->lane();
    const Raw raw = this->raw();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      kda::sum_squares(
          shared.squares, lane, warp, half, [&](int ks) { return piece(raw, half, ks); },
          u32{0} - apart);
    }
  }

  // Of the token of the lane's number.
  KDA_DEVICE float key_unit(float scale) const {
    return kda::key_unit(shared.squares, number_in_warp(), scale);
  }
  KDA_DEVICE float query_unit(float scale) const {
    return kda::query_unit(shared.squares, number_in_warp(), scale);
  }
};

}  // namespace kda::slabs
