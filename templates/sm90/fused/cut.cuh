// The state of a part that is cut between two pairs of blocks, from warp to warp.
#pragma once

#include "abi/fused.h"
#include "ptx/flag.cuh"
#include "sm90/fused/pair.cuh"
#include "step/state.cuh"

namespace kda::fused {

using State = step::State<shape, 1, keys>;

struct Cut {
  const abi::fused::Cuts& cuts;
  int slot;    // of the pair that takes
  int thread;  // of the warpgroup

  static constexpr int units = State::key_tiles;  // of 16 bytes, a thread

  KDA_DEVICE int block() const {
    return slot * abi::fused::blocks + static_cast<int>(Pair::rank());
  }
  KDA_DEVICE u64* ready() const { return cuts.ready + block() * 4 + thread / 32; }
  KDA_DEVICE float4* at(int unit) const {
    return reinterpret_cast<float4*>(cuts.states +
                                     static_cast<i64>(block()) * abi::fused::state_bytes(shape)) +
           unit * 128 + thread;
  }

  KDA_DEVICE void give(const State& state) const {
#pragma unroll
    for (int k = 0; k < units; ++k) {
      const float(&x)[4] = state.s[0][k];
      *at(k) = make_float4(x[0], x[1], x[2], x[3]);
    }
    __threadfence();
    __syncwarp();
    if (thread % 32 == 0) ptx::release(ready(), abi::fused::present);
  }

  KDA_DEVICE void take(State& state) const {
    if (thread % 32 == 0) {
      while (ptx::acquire(ready()) != abi::fused::present) {
      }
      *ready() = 0;
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < units; ++k) {
      const float4 x = __ldcg(at(k));
      state.s[0][k][0] = x.x;
      state.s[0][k][1] = x.y;
      state.s[0][k][2] = x.z;
      state.s[0][k][3] = x.w;
    }
  }
};

}  // namespace kda::fused
