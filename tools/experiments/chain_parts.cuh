// What the orders of chain.cuh share: a design's parameters, its shared memory, registers to
// operands.
#pragma once

#include "abi/dtype.h"
#include "base/element.cuh"
#include "tile/shared.cuh"

namespace kda {

enum class Order { tight, loose, ahead, joint };
enum class Decay { before, under };

template <int chunk_, Order order_, Decay decay_, int warpgroups_, int early_, bool preload_,
          int unroll_>
struct Design {
  static constexpr Order order = order_;
  static constexpr Decay decay = decay_;
  static constexpr int chunk = chunk_;
  static constexpr int warpgroups = warpgroups_;
  static constexpr int early = early_;  // k-steps of O before S's update; -1: no O at all
  // v goes into R's accumulators before the product; else it is added afterwards
  static constexpr bool preload = preload_;
  static constexpr int unroll = unroll_;  // even
};

constexpr abi::DType type = abi::DType::bf16;
constexpr int keys = 128;

template <class d>
struct Layout {
  using Factor = tile::Shared<type, d::chunk, keys>;
  using Pair = tile::Shared<type, 2 * d::chunk, keys>;  // Kd above Qd
  using Square = tile::Shared<type, d::chunk, d::chunk>;
  static constexpr int value_row = d::warpgroups * 128 + 16;  // bytes; a unit more: no bank twice
  static constexpr int kd = 0;
  static constexpr int qd = kd + Factor::bytes;
  static constexpr int ak = qd + Factor::bytes;
  static constexpr int aq = ak + Factor::bytes;
  static constexpr int v = aq + (Square::bytes < 1024 ? 1024 : Square::bytes);
  static constexpr int decay = v + d::chunk * value_row;
  static constexpr int slot = round_up(decay + keys * 4, 1024);
  static constexpr int o = 2 * slot;
  static constexpr int bytes = o + d::chunk * value_row + 16;
};

template <int count>
KDA_DEVICE void hold(float (&x)[count][4]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(x[i][e])::"memory");
  }
}

// As many columns as the operand has.
template <int steps, int count>
KDA_DEVICE void pack(u32 (&a)[steps][4], const float (&x)[count][4]) {
#pragma unroll
  for (int k = 0; k < steps; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = x[2 * k + i / 2] + i % 2 * 2;
      a[k][i] = element<type>::pack(pair[0], pair[1]);
    }
  }
}

KDA_DEVICE void stmatrix_x4_trans(u32 row, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

}  // namespace kda
