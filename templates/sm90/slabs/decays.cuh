// The decays of a warp's slab as log2 sums D from the start of each half of 16 tokens, in the
// registers where the scores' products want them; and the lengths of the rows of q and k.
//
// D = U L, U the lower triangle of ones and L the tokens' log2 decays, a product of f16.  That
// rounds L to 2^-12 of itself, where g has had 2^-9; sums and differences of D are then exact to
// f32.
#pragma once

#include "ptx/mma.cuh"
#include "sm90/factors/solve.cuh"
#include "sm90/factors/squares.cuh"
#include "sm90/slabs/gate.cuh"
#include "sm90/slabs/load.cuh"

namespace kda::slabs {

// g has 16 bits; where it has not, none of this is used.
using Gate16 = element<shape.gate_type == abi::DType::f16 ? abi::DType::f16 : abi::DType::bf16>;

struct Decays : Solve {
  slabs::Scratch& shared;  // the base's, which is this where any of it is used

  KDA_DEVICE explicit Decays(kda::Scratch& scratch)
      : Solve(scratch), shared(reinterpret_cast<slabs::Scratch&>(scratch)) {}

  // D of half the tokens and 16 channels: columns 0-7 and 8-15, as C tiles.
  using Sums = float[2][4];

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
  KDA_DEVICE float unit_factor(int which) const {
    return kda::unit_factor(shared.squares[number_in_warp()][which]);
  }

  // D of a piece of raw g.
  KDA_DEVICE void accumulate(Sums& d, const u32 (&raw)[4], const BoundedGate& gate,
                             float inverse_depth, int ks) const {
    const tile::Lane lane = this->lane();
    constexpr u32 one = 0x0c00;  // 2^-12, as L comes times 2^12
    constexpr u32 ones = one | one << 16;
    static_assert(BoundedGate::scale == 4096);
    const u32 corner = 2 * lane.t + 1 <= lane.g ? ones : (2 * lane.t <= lane.g ? one : 0);
    const u32 triangle[4] = {corner, ones, 0, corner};
    float l[2][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 g = Gate16::unpack(raw[i]);
      const float offset = gate.offset_of(ks, i / 2);
      l[i / 2][i % 2 * 2] = gate.log_decay(g.x, offset, inverse_depth);
      l[i / 2][i % 2 * 2 + 1] = gate.log_decay(g.y, offset, inverse_depth);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      d[i][0] = d[i][1] = d[i][2] = d[i][3] = 0.0F;
      const u32 b[2] = {F16::pack(l[i][0], l[i][1]), F16::pack(l[i][2], l[i][3])};
      ptx::mma_m16n8k16_f16(d[i], triangle, b);
    }
  }

  // A lane's channels of the half's last token, of what each has of its second eight tokens.
  KDA_DEVICE float2 of_last(float2 x) const {
    const int from = 28 + static_cast<int>(lane().t);
    return make_float2(__shfl_sync(0xffffffffU, x.x, from), __shfl_sync(0xffffffffU, x.y, from));
  }
};

}  // namespace kda::slabs
