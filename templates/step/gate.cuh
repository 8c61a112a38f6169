// Raw g to the decay exp(log decay) of a token and channel, and raw beta to the write strength,
// as kda.hpp says.  Every decay lies in [0, 1]; -inf gives exactly 0.
#pragma once

#include "abi/shape.h"
#include "base/types.cuh"

namespace kda::step {

KDA_DEVICE float exp2f_approximate(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

KDA_DEVICE float reciprocal_approximate(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// NaN stays NaN.
KDA_DEVICE float at_least(float x, float least) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(least));
  return r;
}
KDA_DEVICE float at_most(float x, float most) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(most));
  return r;
}

constexpr float largest_f32 = 0x1.fffffep127F;

// How exactly exp is taken: to the last bits of f32, or within 2^-20 where results are rounded to
// 16 bits anyway.
template <abi::Shape shape>
KDA_DEVICE float exponential(float x) {
  if constexpr (shape.qkv_type == abi::DType::f32) {
    return expf(x);
  } else {
    return exp2f_approximate(x * 1.4426950408889634F);
  }
}

template <abi::Shape shape>
KDA_DEVICE float sigmoid(float x) {
  if constexpr (shape.qkv_type == abi::DType::f32) {
    return 1.0F / (1.0F + expf(-x));
  } else {
    return reciprocal_approximate(1.0F + exponential<shape>(-x));
  }
}

// Natural log units.  rate = exp(A_log of the value head), bias = dt_bias of head and channel.
template <abi::Shape shape>
KDA_DEVICE float log_decay(float g, float rate, float bias, float lower_bound) {
  if constexpr (shape.gate == abi::Gate::log_decay) {
    return g;
  } else if constexpr (shape.gate == abi::Gate::logsigmoid) {
    return fminf(g, 0.0F) - log1pf(expf(-fabsf(g)));
  } else {
    const float x = g + bias;
    if constexpr (shape.gate == abi::Gate::softplus) {
      return -rate * (x > 20.0F ? x : log1pf(expf(x)));
    } else {
      return lower_bound * sigmoid<shape>(rate * x);
    }
  }
}

template <abi::Shape shape>
KDA_DEVICE float decay(float g, float rate, float bias, float lower_bound) {
  if constexpr (shape.gate == abi::Gate::logsigmoid) {
    return sigmoid<shape>(g);
  } else {
    return exponential<shape>(log_decay<shape>(g, rate, bias, lower_bound));
  }
}

template <abi::Shape shape>
KDA_DEVICE float log_gate_rate(const float* A_log, int head) {
  return !abi::has_parameters(shape.gate) || A_log == nullptr ? 0.0F : A_log[head];
}

// exp(A_log), finite, as infinity times nothing would be NaN.
KDA_DEVICE float rate_of(float log_rate) { return at_most(expf(log_rate), largest_f32); }

template <abi::Shape shape>
KDA_DEVICE float gate_rate(const float* A_log, int head) {
  return rate_of(log_gate_rate<shape>(A_log, head));
}

template <abi::Shape shape>
KDA_DEVICE float gate_bias(const float* dt_bias, int head, int channel) {
  if constexpr (!abi::has_parameters(shape.gate)) {
    return 0.0F;
  } else {
    return dt_bias == nullptr ? 0.0F : dt_bias[head * static_cast<i64>(shape.key_dim) + channel];
  }
}

template <abi::Shape shape>
KDA_DEVICE float write_strength(float beta) {
  if constexpr (shape.beta_is_logit) {
    beta = sigmoid<shape>(beta);
    if constexpr (shape.allow_neg_eigval) beta *= 2.0F;
  } else if constexpr (shape.beta_at_most_one) {
    if (!(beta >= 0.0F && beta <= 1.0F)) beta = __int_as_float(0x7fc00000);  // NaN, not guesswork
  }
  return beta;
}

}  // namespace kda::step
