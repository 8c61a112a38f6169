// What a warp takes of a chunk straight to registers: the gate's constants of the channels whose
// log decays a lane finds, and beta.
#pragma once

#include "base/element.cuh"
#include "ptx/load_if.cuh"
#include "sm90/factors/sizes.cuh"
#include "step/gate.cuh"
#include "tile/operand.cuh"

namespace kda::slabs {

// Bits of the raw g, minus infinity, that does not decay at all.
constexpr u32 closed_gate = shape.gate_type == abi::DType::f16 ? 0xfc00 : 0xff80;

// The bounded gate's log2 decays, times `scale` so that small ones are no subnormal f16:
// lower_bound log2(e) / (1 + exp(-x)) as one reciprocal, which asks for a lower_bound that is not
// 0.  steps: of 16 channels, a warp's.
template <int steps>
struct BoundedGate {
  static constexpr int scale = 4096;

  float slope;
  float offset[2];  // of channels lane / 4 and lane / 4 + 8, of k step lane % steps (1, 2 or 4)

  // Of a head; channel: the lane's first of a k step.
  KDA_DEVICE void load(u32 lane, u32 channel, const abi::Inputs& in, int head) {
    slope = -step::exp2f_approximate(step::log_gate_rate<shape>(in.A_log, head) * step::log2e) *
            step::log2e;
    constexpr float least = 0x1p-126F;
    constexpr float most = 0x1.fffffep127F;
    constexpr float steepest = 0x1p100F;
    if (slope > -least) slope = -least;        // so that it closes whatever A_log is
    if (slope < -steepest) slope = -steepest;  // and an infinite one would make NaN of no bias
    const float* biases =
        in.dt_bias == nullptr ? nullptr : in.dt_bias + head * static_cast<i64>(keys) + channel;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float x = (biases == nullptr ? 0.0F : biases[lane % steps * 16 + i * 8]) * slope;
      offset[i] = x < -most ? -most : x;  // infinite, it would make a closed gate NaN
    }
  }

  // 1 / lower_bound, as log_decay() wants it, of a lane's even and odd tokens.  Log decays are
  // rounded to f16, and where a gate repeats each is as far off: so they differ by an eighth of a
  // bit from lane to lane, one up and one down, and their sum is not.
  static KDA_DEVICE float2 inverse_depths(float lower_bound, u32 t) {
    constexpr float apart = 0.92F / 8 * 0x1p-11F;
    const float one = step::reciprocal_approximate(lower_bound * (step::log2e * scale));
    const float part = one * apart * static_cast<float>(static_cast<int>(2 * t + 1));
    return make_float2(one + part, one - part);
  }

  // Of a lane's channel in the first or second eight of a k step.
  KDA_DEVICE float offset_of(const tile::Lane& lane, int ks, int i) const {
    return steps == 1 ? offset[i] : __shfl_sync(0xffffffffU, offset[i], lane.g * 4 + ks);
  }
  KDA_DEVICE float log_decay(float g, float offset, float inverse_depth) const {
    const float e = step::exp2f_approximate(fmaf(g, slope, offset));
    return step::reciprocal_approximate(fmaf(e, inverse_depth, inverse_depth));
  }
};

// beta of the token of the lane's number, of 32: as it lies in memory, so that nothing waits for it
// before its turn, and what it says.
using Beta = storage<shape.beta_type>;
template <class Place>
KDA_DEVICE Beta load_beta(u32 lane, const abi::Inputs& in, const Place& place) {
  Beta raw = 0;
  ptx::ld_global_if(
      raw, static_cast<const Beta*>(in.beta.data) + place.beta_origin(in) + lane * in.beta.token,
      static_cast<int>(lane) < place.rows);
  return raw;
}
template <class Place>
KDA_DEVICE float write_strength(u32 lane, Beta raw, const Place& place) {
  return static_cast<int>(lane) < place.rows
             ? step::write_strength<shape>(element<shape.beta_type>::to_float(raw))
             : 0.0F;
}

}  // namespace kda::slabs
