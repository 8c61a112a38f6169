// Bytes from one place in memory to another.
#pragma once

#include "base/types.cuh"

namespace kda {

// By `step` threads, of which this one is the first-th; both on 2 bytes, as many as are even.
KDA_DEVICE void move_bytes(void* to, const void* from, i64 bytes, i64 first, i64 step) {
  constexpr int together = 4;  // loads on their way at once
  const bool aligned = (reinterpret_cast<u64>(to) | reinterpret_cast<u64>(from)) % 16 == 0;
  const i64 units = aligned ? bytes / 16 : 0;
  auto* unit_to = static_cast<uint4*>(to);
  const auto* unit_from = static_cast<const uint4*>(from);
  i64 i = first;
  for (; i + (together - 1) * step < units; i += together * step) {
    uint4 units_of[together];
#pragma unroll
    for (int j = 0; j < together; ++j) units_of[j] = unit_from[i + j * step];
#pragma unroll
    for (int j = 0; j < together; ++j) unit_to[i + j * step] = units_of[j];
  }
  for (; i < units; i += step) unit_to[i] = unit_from[i];
  for (i = units * 8 + first; i < bytes / 2; i += step) {
    static_cast<u16*>(to)[i] = static_cast<const u16*>(from)[i];
  }
}

}  // namespace kda
