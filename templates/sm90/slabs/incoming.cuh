// What a thread takes of a tile straight to registers, while its group works on the one before:
// beta and the gate's constants of the channels whose log decays it finds.
#pragma once

#include "base/element.cuh"
#include "sm90/factors/group.cuh"
#include "step/gate.cuh"

namespace kda::slabs {

struct Incoming {
  float log_rate;
  float bias[k_steps][2];         // of channels lane / 4 and lane / 4 + 8 of each 16
  storage<shape.beta_type> beta;  // of the token of the thread's number

  template <class AnyTile>
  KDA_DEVICE void load(int thread, const abi::Inputs& in, const AnyTile& tile) {
    log_rate = step::log_gate_rate<shape>(in.A_log, tile.head);
    const u32 own = static_cast<u32>(thread);
    const u32 channel = own / 32 * slab + own % 32 / 4;
    const float* biases =
        in.dt_bias == nullptr ? nullptr : in.dt_bias + tile.head * static_cast<i64>(keys) + channel;
#pragma unroll
    for (int ks = 0; ks < k_steps; ++ks) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        bias[ks][i] = biases == nullptr ? 0.0F : biases[ks * 16 + i * 8];
      }
    }
    beta = 0;
    if (thread < tile.rows) {
      beta = static_cast<const storage<shape.beta_type>*>(
          in.beta.data)[tile.beta_origin(in) + thread * in.beta.token];
    }
  }

  KDA_DEVICE float write_strength(int thread, int rows) const {
    return thread < rows ? step::write_strength<shape>(element<shape.beta_type>::to_float(beta))
                         : 0.0F;
  }
};

// The bounded gate's log2 decays, times `scale` so that small ones are no subnormal f16:
// lower_bound log2(e) / (1 + exp(-x)) as one reciprocal, which asks for a lower_bound that is not
// 0.
struct BoundedGate {
  static constexpr int scale = 4096;

  float slope, inverse_depth;
  float offset[k_steps][2];

  KDA_DEVICE BoundedGate(const Incoming& raw, float lower_bound)
      : slope(-step::exp2f_approximate(raw.log_rate * step::log2e) * step::log2e),
        inverse_depth(step::reciprocal_approximate(lower_bound * (step::log2e * scale))) {
#pragma unroll
    for (int ks = 0; ks < k_steps; ++ks) {
      offset[ks][0] = raw.bias[ks][0] * slope;
      offset[ks][1] = raw.bias[ks][1] * slope;
    }
  }

  // Of a lane's channel in the first or second eight of a k step.
  KDA_DEVICE float offset_of(int ks, int i) const {
    return k_steps == 1 || ks == 0 ? offset[0][i] : offset[k_steps - 1][i];
  }
  KDA_DEVICE float log_decay(float g, float offset) const {
    const float e = step::exp2f_approximate(fmaf(g, slope, offset));
    return step::reciprocal_approximate(fmaf(e, inverse_depth, inverse_depth));
  }
};

}  // namespace kda::slabs
