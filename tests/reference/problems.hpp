// Small problems for the tests of the reference.
#pragma once

#include <cmath>

#include "kda/kda.hpp"

namespace kda::reference {

inline Problem small_problem(int H, int HV, int K, int V, DType type = DType::f32) {
  Problem p;
  p.heads = H;
  p.value_heads = HV;
  p.key_dim = K;
  p.value_dim = V;
  p.max_tokens = 4096;
  p.max_sequences = 64;
  p.qkv_type = p.gate_type = p.beta_type = type;
  p.scale = 1 / std::sqrt(static_cast<float>(K));
  p.initial_state = p.final_state = true;
  return p;
}

}  // namespace kda::reference
