// A token's outputs on their way to memory.
#pragma once

#include "abi/shape.h"
#include "base/element.cuh"
#include "base/types.cuh"

namespace kda::recurrent {

// Every lane of a group holds its columns' outputs: lane i of it writes columns i, i + lanes, ...
template <abi::Shape shape, class State>
KDA_DEVICE void write_output(storage<shape.qkv_type>* row, const State& state,
                             const float (&o)[State::columns]) {
#pragma unroll
  for (int first = 0; first < State::columns; first += State::lanes) {
    float value = 0.0F;
#pragma unroll
    for (int i = 0; i < smaller(State::lanes, State::columns - first); ++i) {
      if (i == state.part) value = o[first + i];
    }
    const int r = first + state.part;
    const int column = state.block_column + state.column(r);
    if (r < State::columns && column < shape.value_dim) {
      row[column] = element<shape.qkv_type>::from_float(value);
    }
  }
}

}  // namespace kda::recurrent
