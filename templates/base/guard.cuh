// What a kernel is when KDA_GUARDED is 1: it does nothing where a kernel before it found nothing.
#pragma once

#include "abi/guard.h"
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

}  // namespace kda
