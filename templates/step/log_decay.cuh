// The log2 of a token's decay, with the constants of a channel folded beforehand: two instructions
// and two special functions an element for the bounded gate.
#pragma once

#include "abi/shape.h"
#include "base/types.cuh"
#include "step/gate.cuh"

namespace kda::step {

// Beyond it a decay is 0 in f32 whatever follows, and sums of 16 stay finite.
constexpr float least_log2_decay = -160.0F;

constexpr float log2e = 1.4426950408889634F;

KDA_DEVICE float log2f_approximate(float x) {
  float r;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// log2(1 + 2^x); a short series where 1 + 2^x would lose 2^x.
KDA_DEVICE float softplus_of_log2(float x) {
  const float e = exp2f_approximate(x);
  const float small = e * fmaf(e, fmaf(e, log2e / 3, -log2e / 2), log2e);
  const float soft = e < 0.0078125F ? small : log2f_approximate(1.0F + e);
  return x > 28.8539F ? x : soft;
}

// Of one channel: log2 decay = depth * activation(g).
template <abi::Shape shape>
struct LogDecay {
  float slope, offset, depth;
  float rate;  // Gate::softplus, and Gate::logsigmoid, which is -softplus(-g)

  KDA_DEVICE LogDecay(float rate, float bias, float lower_bound) : rate(rate) {
    if constexpr (shape.gate == abi::Gate::bounded) {
      // So that neither the product with a bias nor that with a g is infinite: either would decide
      // alone what their sum is.
      slope = at_least(-rate * log2e, -0x1p100F);
      offset = bias * slope;
      depth = lower_bound * log2e;
    } else if constexpr (shape.gate == abi::Gate::logsigmoid) {
      slope = -log2e;
      offset = 0.0F;
      depth = 1.0F;
    } else {
      slope = log2e;
      offset = bias * log2e;
      depth = 1.0F;
    }
  }

  // Times depth it lies in [least_log2_decay, 0], if lower_bound is not below that.
  KDA_DEVICE float activation(float g) const {
    if constexpr (shape.gate == abi::Gate::log_decay) {
      return at_least(g * log2e, least_log2_decay);
    } else {
      const float x = fmaf(g, slope, offset);
      if constexpr (shape.gate == abi::Gate::bounded) {
        return reciprocal_approximate(1.0F + exp2f_approximate(x));
      } else {
        return at_least(-rate * softplus_of_log2(x), least_log2_decay);
      }
    }
  }
};

}  // namespace kda::step
