// A token's outputs on their way to memory.
#pragma once

#include "abi/shape.h"
#include "base/element.cuh"
#include "base/types.cuh"

namespace kda::recurrent {

// By shares each lane has its own.  Else all lanes of a group hold the outputs of all its columns,
// and lane i of it writes columns i, i + lanes, ...
template <abi::Shape shape, class State>
KDA_DEVICE void write_output(storage<shape.qkv_type>* row, const State& state,
                             const float (&o)[State::outputs]) {
  const auto write = [&](int r, float value, bool wanted) {
    const int column = state.block_column + state.column(r);
    if (wanted && column < shape.value_dim) {
      row[column] = element<shape.qkv_type>::from_float(value);
    }
  };
  if constexpr (State::shares) {
#pragma unroll
    for (int i = 0; i < State::outputs; ++i) write(state.first_own() + i, o[i], state.tells());
  } else {
#pragma unroll
    for (int first = 0; first < State::columns; first += State::lanes) {
      float value = 0.0F;
#pragma unroll
      for (int i = 0; i < smaller(State::lanes, State::columns - first); ++i) {
        if (i == state.part) value = o[first + i];
      }
      const int r = first + state.part;
      write(r, value, r < State::columns);
    }
  }
}

}  // namespace kda::recurrent
