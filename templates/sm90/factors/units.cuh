// What a token's rows of k and q are multiplied by: what makes their lengths one, or 1 where they
// come normalised.
#pragma once

#include "sm90/factors/sizes.cuh"
#include "step/normalize.cuh"

namespace kda {

KDA_DEVICE float unit_factor(float squares) {
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(squares + 1e-6F));
  return r;
}

// Whether a row is of a length that 16-bit operands are made for, or nothing at all.
KDA_DEVICE bool is_served(float squares, float least, float most) {
  return squares == 0.0F || (squares >= least * least && squares <= most * most);
}

// Given the sums of their squares, k's; where it is NaN, the state is from there on, so it answers
// for both.
KDA_DEVICE float key_unit(float k_squares, float q_squares, float scale) {
  if constexpr (shape.l2norm_qk) {
    return unit_factor(k_squares);
  } else {
    using namespace abi::factors;
    return step::as_given(is_served(k_squares, least_key, abi::chunk::most_key) &&
                          is_served(q_squares * scale * scale, least_query, most_query));
  }
}
// q's, times the scale.
KDA_DEVICE float query_unit(float q_squares, float scale) {
  if constexpr (shape.l2norm_qk) {
    return unit_factor(q_squares) * scale;
  } else {
    return scale;
  }
}

}  // namespace kda
