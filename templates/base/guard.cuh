// What a kernel is when KDA_GUARDED is 1: it does nothing where a kernel before it found nothing.
#pragma once

#include "abi/guard.h"
#include "base/move.cuh"
#include "base/types.cuh"

#ifndef KDA_GUARDED
#define KDA_GUARDED 0
#endif

namespace kda {

constexpr bool guarded = KDA_GUARDED != 0;

// What such a kernel is given, and the part of it that others are given.
template <class Args>
using Guardable = either<guarded, abi::Guarded<Args>, Args>;
template <class Args>
KDA_DEVICE const Args& unguarded(const Args& args) {
  return args;
}
template <class Args>
KDA_DEVICE const Args& unguarded(const abi::Guarded<Args>& given) {
  return given.args;
}

// Whether the block is to end at once; each warp finds out for itself.
template <class Args>
KDA_DEVICE bool stays_out(const Args&) {
  return false;
}
template <class Args>
KDA_DEVICE bool stays_out(const abi::Guarded<Args>& given) {
  u32 found = 0;
#pragma unroll
  for (u32 i = 0; i < abi::guard_words; i += 32) {
    found |= __ldcg(given.found + i + threadIdx.x % 32);
  }
  return __any_sync(0xffffffffU, found != 0) == 0;
}

// What a block that stays out does instead, beside the others.
template <class Args>
KDA_DEVICE void move_instead(const Args&) {}
template <class Args>
KDA_DEVICE void move_instead(const abi::Guarded<Args>& given) {
  const abi::Move& move = given.instead;
  const i64 first = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  move_bytes(move.to, move.from, move.bytes, first, step);
}

// Where states of a pool were kept.
template <class Args>
KDA_DEVICE const void* kept_states(const Args&) {
  return nullptr;
}
template <class Args>
KDA_DEVICE const void* kept_states(const abi::Guarded<Args>& given) {
  return given.kept;
}

}  // namespace kda
