// Part of a dense run of one sequence whose tensors are contiguous.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kda/kda.hpp"
#include "reference/dtype.hpp"

namespace kda::test {

// The run of tokens [from, to) alone, with the same states.
inline Forward part_of(const Problem& p, Forward f, std::int64_t from, std::int64_t to) {
  const auto at = [from](const void* data, std::int64_t channels, DType type) {
    return static_cast<const std::byte*>(data) +
           from * channels * static_cast<std::int64_t>(reference::bytes_of(type));
  };
  const std::int64_t keys = std::int64_t{p.heads} * p.key_dim;
  const std::int64_t values = std::int64_t{p.value_heads} * p.value_dim;
  f.q = at(f.q, keys, p.qkv_type);
  f.k = at(f.k, keys, p.qkv_type);
  f.v = at(f.v, values, p.qkv_type);
  f.g = at(f.g, std::int64_t{p.value_heads} * p.key_dim, p.gate_type);
  f.beta = at(f.beta, p.value_heads, p.beta_type);
  f.o = const_cast<std::byte*>(at(f.o, values, p.qkv_type));
  f.tokens = to - from;
  return f;
}

}  // namespace kda::test
