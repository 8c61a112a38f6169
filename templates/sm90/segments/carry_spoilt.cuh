// Columns of what is carried that are not finite, where factors end as T has come to nothing: 0
// times that is NaN, which all that follows in the sequence has.
#pragma once

#include "abi/tensors.h"
#include "base/element.cuh"
#include "base/types.cuh"
#include "base/varlen.cuh"
#include "sm90/segments/looks.cuh"
#include "sm90/segments/walk_part.cuh"

namespace kda {

class Spoilt {
 public:
  KDA_DEVICE explicit Spoilt(const Chain::State& state)
      : rest_(state.s[0], [](float x) { return x * 0.0F; }) {}

  // Whether one of this lane's two columns is.
  KDA_DEVICE bool any() const { return rest_.of[0] != 0.0F || rest_.of[1] != 0.0F; }

  // Of the state these columns alone.
  KDA_DEVICE void leave_alone(Chain::State& state) const {
#pragma unroll
    for (auto& x : state.s[0]) {
#pragma unroll
      for (int e = 0; e < 4; ++e) x[e] = rest_.of[e / 2];
    }
  }

  // And of o, in so many chunks after the task's; four lanes have a column.
  KDA_DEVICE void leave_outputs(const abi::Tensor& o, const Task& task, int chunks) const {
    using Element = element<shape.qkv_type>;
    const tile::Lane lane;
    const int column = task.value0 + static_cast<int>(threadIdx.x) / 32 * 16 + lane.g;
    auto* to = static_cast<storage<shape.qkv_type>*>(const_cast<void*>(o.data)) +
               offset_of<shape.varlen>(o, task.n, task.sequence.begin, task.head) + column;
    const i64 begin = task.first + static_cast<i64>(task.chunks) * chunk;
    const i64 end = begin + static_cast<i64>(chunks) * chunk;
#pragma unroll 1
    for (i64 token = begin + lane.t; token < end && token < task.sequence.length(); token += 4) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        if (rest_.of[row] != 0.0F)
          to[token * o.token + row * 8] = Element::from_float(rest_.of[row]);
      }
    }
  }

 private:
  RowSums rest_;  // 0, or NaN
};

}  // namespace kda
