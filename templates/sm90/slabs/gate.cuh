// What a group takes of a chunk straight to registers: the gate's constants of the channels whose
// log decays a lane finds, and beta.
#pragma once

#include "base/element.cuh"
#include "sm90/factors/group.cuh"
#include "step/gate.cuh"

namespace kda::slabs {

// The bounded gate's log2 decays, times `scale` so that small ones are no subnormal f16:
// lower_bound log2(e) / (1 + exp(-x)) as one reciprocal, which asks for a lower_bound that is not
// 0.
struct BoundedGate {
  static constexpr int scale = 4096;
  // Bits of the raw g, minus infinity, that does not decay at all.
  static constexpr u32 closed = shape.gate_type == abi::DType::f16 ? 0xfc00 : 0xff80;

  float slope;
  float offset[k_steps][2];  // of channels lane / 4 and lane / 4 + 8 of each 16

  // Of a head.
  KDA_DEVICE void load(int thread, const abi::Inputs& in, int head) {
    slope = -step::exp2f_approximate(step::log_gate_rate<shape>(in.A_log, head) * step::log2e) *
            step::log2e;
    constexpr float least = 0x1p-126F;
    constexpr float most = 0x1.fffffep127F;
    constexpr float steepest = 0x1p100F;
    if (slope > -least) slope = -least;        // so that it closes whatever A_log is
    if (slope < -steepest) slope = -steepest;  // and an infinite one would make NaN of no bias
    const u32 own = static_cast<u32>(thread);
    const u32 channel = own / 32 * slab + own % 32 / 4;
    const float* biases =
        in.dt_bias == nullptr ? nullptr : in.dt_bias + head * static_cast<i64>(keys) + channel;
#pragma unroll
    for (int ks = 0; ks < k_steps; ++ks) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float x = (biases == nullptr ? 0.0F : biases[ks * 16 + i * 8]) * slope;
        offset[ks][i] = x < -most ? -most : x;  // infinite, it would make a closed gate NaN
      }
    }
  }

  static KDA_DEVICE float inverse_depth(float lower_bound) {
    return step::reciprocal_approximate(lower_bound * (step::log2e * scale));
  }

  // Of a lane's channel in the first or second eight of a k step.
  KDA_DEVICE float offset_of(int ks, int i) const {
    return k_steps == 1 || ks == 0 ? offset[0][i] : offset[k_steps - 1][i];
  }
  KDA_DEVICE float log_decay(float g, float offset, float inverse_depth) const {
    const float e = step::exp2f_approximate(fmaf(g, slope, offset));
    return step::reciprocal_approximate(fmaf(e, inverse_depth, inverse_depth));
  }
};

// beta of the token of the lane's number, of 32.
template <class Place>
KDA_DEVICE float write_strength(int lane, const abi::Inputs& in, const Place& place) {
  if (lane >= place.rows) return 0.0F;
  return step::write_strength<shape>(
      load<shape.beta_type>(in.beta.data, place.beta_origin(in) + lane * in.beta.token));
}

}  // namespace kda::slabs
