// What a warp takes of a chunk straight to registers: the gate's constants of the channels whose
// log decays a lane finds, and beta.
#pragma once

#include "base/element.cuh"
#include "ptx/load_if.cuh"
#include "sm90/factors/sizes.cuh"
#include "step/gate.cuh"
#include "step/log_decay.cuh"
#include "tile/operand.cuh"

namespace kda::slabs {

// Bits of the raw g that does not decay at all: minus infinity, or plus infinity, or 0.
constexpr u32 closed_gate = [] {
  const u32 infinity = shape.gate_type == abi::DType::f16 ? 0x7c00 : 0x7f80;
  if (shape.gate == abi::Gate::log_decay) return u32{0};
  return shape.gate == abi::Gate::logsigmoid ? infinity : infinity | 0x8000U;
}();

// The same of a raw g of 32 bits.
KDA_DEVICE float closed_gate_word() {
  return shape.gate == abi::Gate::log_decay
             ? 0.0F
             : __uint_as_float(shape.gate == abi::Gate::logsigmoid ? 0x7f800000U : 0xff800000U);
}

// g of 16 bits.
using Gate16 = element<shape.gate_type == abi::DType::f16 ? abi::DType::f16 : abi::DType::bf16>;

// Log decays are rounded to f16, and where a gate repeats each is as far off: so they differ by an
// eighth of a bit from lane to lane, one up and one down, and their sum is not.  What a number is
// multiplied by for that, of a lane's even and odd tokens.
KDA_DEVICE float2 apart(float one, u32 t) {
  constexpr float step = 0.92F / 8 * 0x1p-11F;
  const float part = one * step * static_cast<float>(static_cast<int>(2 * t + 1));
  return make_float2(one + part, one - part);
}

// The bounded gate's log2 decays, times `scale` so that small ones are no subnormal f16:
// lower_bound log2(e) / (1 + exp(-x)) as one reciprocal, which asks for a lower_bound that is not
// 0.  steps: of 16 channels, a warp's.
template <int steps>
struct BoundedGate {
  static constexpr bool is_exact = shape.gate_type == abi::DType::f32;  // else as f16 has them
  static constexpr int scale_bits = 12;
  static constexpr float scale = 1 << scale_bits;

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

  // What log_decay() wants of a lane's even and odd tokens: 1 / lower_bound.
  static KDA_DEVICE float2 of_tokens(float lower_bound, u32 t) {
    const float one = step::reciprocal_approximate(lower_bound * (step::log2e * scale));
    return is_exact ? make_float2(one, one) : apart(one, t);
  }

  // Of a lane's channel in the first or second eight of a k step.
  KDA_DEVICE float offset_of(const tile::Lane& lane, int ks, int i) const {
    return steps == 1 ? offset[i] : __shfl_sync(0xffffffffU, offset[i], lane.g * 4 + ks);
  }
  KDA_DEVICE float2 depths(float2 of_tokens) const { return of_tokens; }
  KDA_DEVICE float log_decay(float g, float offset, float inverse_depth) const {
    const float e = step::exp2f_approximate(fmaf(g, slope, offset));
    return step::reciprocal_approximate(fmaf(e, inverse_depth, inverse_depth));
  }
};

// Any other gate's, as far down as step::least_log2_decay, which f16 holds times its scale.  What
// one token alone may decay by wants two f16.
template <int steps>
struct OpenGate {
  static constexpr bool is_exact = true;
  static constexpr int scale_bits = 8;
  static constexpr float scale = 1 << scale_bits;
  static constexpr bool has_parameters = abi::has_parameters(shape.gate);

  float depth;      // of a head
  float offset[2];  // as BoundedGate's

  KDA_DEVICE void load(u32 lane, u32 first, const abi::Inputs& in, int head) {
    if constexpr (!has_parameters) {
      depth = shape.gate == abi::Gate::log_decay ? step::log2e * scale : -scale;
      return;
    }
    constexpr float most = 0x1.fffffep127F;
    constexpr float steepest = 0x1p119F;  // that depth can hold
    float rate = step::exp2f_approximate(step::log_gate_rate<shape>(in.A_log, head) * step::log2e);
    if (rate > most) rate = most;  // an infinite one would make NaN of a gate that is closed
    // Of one that is steeper nothing is left but in the softplus' tail, where that is as 2^x.
    const bool is_steep = rate > steepest;
    depth = -(is_steep ? rate * 0x1p-9F : rate) * scale;
    const float* biases =
        in.dt_bias == nullptr ? nullptr : in.dt_bias + head * static_cast<i64>(keys) + first;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float x = (biases == nullptr ? 0.0F : biases[lane % steps * 16 + i * 8]) * step::log2e +
                      (is_steep ? 9.0F : 0.0F);
      offset[i] = x > most ? most : x;
    }
  }

  static KDA_DEVICE float2 of_tokens(float, u32) { return make_float2(1.0F, 1.0F); }

  KDA_DEVICE float offset_of(const tile::Lane& lane, int ks, int i) const {
    if constexpr (!has_parameters) return 0.0F;
    return steps == 1 ? offset[i] : __shfl_sync(0xffffffffU, offset[i], lane.g * 4 + ks);
  }
  KDA_DEVICE float2 depths(float2) const { return make_float2(depth, depth); }
  KDA_DEVICE float log_decay(float g, float offset, float depth) const {
    constexpr float least = step::least_log2_decay * scale;
    if constexpr (shape.gate == abi::Gate::log_decay) {
      return step::at_least(g * depth, least);
    } else {
      constexpr float slope = shape.gate == abi::Gate::logsigmoid ? -step::log2e : step::log2e;
      const float x = has_parameters ? fmaf(g, slope, offset) : g * slope;
      return step::at_least(step::softplus_of_log2(x) * depth, least);
    }
  }
};

template <int steps>
using Gate = either<shape.gate == abi::Gate::bounded, BoundedGate<steps>, OpenGate<steps>>;

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
