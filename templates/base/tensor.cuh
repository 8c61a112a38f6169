// Reading rows of a strided tensor two channels at a time where its layout allows.
#pragma once

#include "abi/tensors.h"
#include "base/element.cuh"
#include "base/types.cuh"

namespace kda {

// Whether channels 2i and 2i + 1 of every row lie on one pair's alignment.
template <abi::DType type>
KDA_DEVICE bool is_paired(const abi::Tensor& tensor, int channels) {
  constexpr u64 mask = 2 * sizeof(storage<type>) - 1;
  const u64 odd = static_cast<u64>(tensor.sequence | tensor.token | tensor.head | channels) & 1;
  return ((reinterpret_cast<u64>(tensor.data) & mask) | odd) == 0;
}

// Whether every row starts on 16 bytes and is a whole number of them.
template <abi::DType type>
KDA_DEVICE bool is_vectored(const abi::Tensor& tensor, int channels) {
  constexpr u64 elements = 16 / sizeof(storage<type>) - 1;
  const u64 rest =
      static_cast<u64>(tensor.sequence | tensor.token | tensor.head | channels) & elements;
  return ((reinterpret_cast<u64>(tensor.data) & 15) | rest) == 0;
}

// Channels c and c + 1 of the row at `index` as they lie in memory, 0 past the row's end.
template <abi::DType type>
KDA_DEVICE typename element<type>::pair fetch_channels(const void* data, i64 index, int c,
                                                       int channels, bool paired) {
  using Pair = typename element<type>::pair;
  const auto* at = static_cast<const storage<type>*>(data) + index + c;
  if (paired) return c < channels ? *reinterpret_cast<const Pair*>(at) : Pair{};
  return element<type>::join(c < channels ? at[0] : storage<type>(0),
                             c + 1 < channels ? at[1] : storage<type>(0));
}

}  // namespace kda
