// What a kernel is when KDA_GUARDED is not 0: one of the abi::Guard says when it is at work.
#pragma once

#include "abi/guard.h"
#include "abi/shape.h"
#include "base/move.cuh"
#include "base/types.cuh"
#include "base/varlen.cuh"

#ifndef KDA_GUARDED
#define KDA_GUARDED 0
#endif

namespace kda {

constexpr auto guard = static_cast<abi::Guard>(KDA_GUARDED);
constexpr bool guarded = guard != abi::Guard::none;

// What such a kernel is given, and the part of it that others are given.
template <class Args>
using Guardable = either<guarded,
                         either<guard == abi::Guard::alike || guard == abi::Guard::unlike,
                                abi::OfLengths<Args>, abi::Guarded<Args>>,
                         Args>;
template <class Args>
KDA_DEVICE const Args& unguarded(const Args& args) {
  return args;
}
template <class Args>
KDA_DEVICE const Args& unguarded(const abi::Guarded<Args>& given) {
  return given.args;
}
template <class Args>
KDA_DEVICE const Args& unguarded(const abi::OfLengths<Args>& given) {
  return given.args;
}

// Whether such a kernel may look before it waits: all that came before the run has ended, which the
// kernels of the other way, before its own, have waited for.
constexpr bool looks_before_waiting = guard == abi::Guard::unlike;

// Whether the block is to end at once; each warp finds out for itself.
template <abi::Shape shape, class Args>
KDA_DEVICE bool stays_out(const Args&, const abi::Inputs&) {
  return false;
}
template <abi::Shape shape, class Args>
KDA_DEVICE bool stays_out(const abi::Guarded<Args>& given, const abi::Inputs&) {
  u32 found = 0;
#pragma unroll
  for (u32 i = 0; i < abi::guard_words; i += 32) {
    found |= __ldcg(given.found + i + threadIdx.x % 32);
  }
  // Others of the same kernel may do so while this one looks: all are to go the same way.
  if constexpr (guard == abi::Guard::unfound) found &= ~abi::found_later;
  const bool none = __any_sync(0xffffffffU, found != 0) == 0;
  return none == (guard == abi::Guard::found);
}
template <abi::Shape shape, class Args>
KDA_DEVICE bool stays_out(const abi::OfLengths<Args>& given, const abi::Inputs& in) {
  bool longer = false;
#pragma unroll 4
  for (int n = static_cast<int>(threadIdx.x) % 32; n < in.sequences; n += 32) {
    const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n);
    longer |= sequence.length() > given.most;
  }
  const bool unlike = __any_sync(0xffffffffU, longer) != 0;
  return unlike != (guard == abi::Guard::unlike);
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

// Where a kernel says that it has found something itself (abi::found_later).
template <class Args>
KDA_DEVICE u32* findings(const Args&) {
  return nullptr;
}
template <class Args>
KDA_DEVICE u32* findings(const abi::Guarded<Args>& given) {
  return given.found;
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
