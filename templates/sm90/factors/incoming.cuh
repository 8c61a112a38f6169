// What a thread takes of a tile straight to registers, while its group works on the one before:
// beta and the gate's constants.
#pragma once

#include "base/element.cuh"
#include "sm90/factors/group.cuh"
#include "sm90/factors/tile.cuh"
#include "step/gate.cuh"

namespace kda {

struct Incoming {
  float log_rate;
  float bias[2];                  // of this thread's channels
  storage<shape.beta_type> beta;  // of the token of its number

  template <class AnyTile>
  KDA_DEVICE void load(int thread, const abi::Inputs& in, const AnyTile& tile) {
    log_rate = step::log_gate_rate<shape>(in.A_log, tile.head);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      bias[i] = step::gate_bias<shape>(in.dt_bias, tile.head, Line{thread}.channel() + i);
    }
    beta = 0;
    if (thread < tile.rows) {
      beta = static_cast<const storage<shape.beta_type>*>(
          in.beta.data)[tile.beta_origin(in) + thread * in.beta.token];
    }
  }

  KDA_DEVICE float rate() const { return step::rate_of(log_rate); }
  KDA_DEVICE float write_strength(int thread, int rows) const {
    return thread < rows ? step::write_strength<shape>(element<shape.beta_type>::to_float(beta))
                         : 0.0F;
  }
};

}  // namespace kda
