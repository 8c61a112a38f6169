// Looks at which T, or what is carried, may be given up early (abi::segments::GivenUp, Carried):
// what is noted of S_local there, and asked beside that.
#pragma once

#include "abi/segments.h"
#include "base/element.cuh"
#include "base/types.cuh"
#include "tile/operand.cuh"

namespace kda {

// Whether there is a look with so many of a segment's chunks left, and its number.
KDA_DEVICE constexpr bool is_look(int left) {
  return left % abi::segments::chunks_a_look == abi::segments::chunks_a_look - 1;
}
KDA_DEVICE constexpr int look_at(int left) { return left / abi::segments::chunks_a_look; }

// What is noted of a tile at a look.  tile: of all segments', heads' and V's, in that order.
template <abi::Shape shape>
KDA_DEVICE float* noted_at(const abi::segments::Args& args, i64 tile, int look) {
  const i64 at = tile * (args.segments.chunks / abi::segments::chunks_a_look) + look;
  return args.given_up.lengths + at * abi::segments::noted_floats(shape);
}

// The same where it ends what is carried.
template <abi::Shape shape>
KDA_DEVICE float* carry_noted_at(const abi::segments::Args& args, i64 tile, int look) {
  const i64 at = tile * abi::segments::carry_looks(args.segments.chunks) + look;
  return args.carried.lengths + at * abi::segments::noted_floats(shape);
}

// There the squared length of the first of a lane's two V columns, 8 before the other's.  thread:
// of the warpgroup.
KDA_DEVICE int column_noted(int thread) { return thread / 32 * 16 + thread % 32 / 4; }

// Sums over keys, of this lane's two rows of S^T, of what of(element) says of each.
struct RowSums {
  float of[2];

  template <int count, class Of>
  KDA_DEVICE RowSums(const float (&s)[count][4], Of element, int first = 0, int end = count)
      : of{} {
#pragma unroll
    for (int k = 0; k < count; ++k) {
      if (k < first || k >= end) continue;
#pragma unroll
      for (int e = 0; e < 4; ++e) of[e / 2] += element(s[k][e]);
    }
#pragma unroll
    for (float& x : of) {
      x += __shfl_xor_sync(0xffffffffU, x, 1);
      x += __shfl_xor_sync(0xffffffffU, x, 2);
    }
  }
};

KDA_DEVICE float square(float x) { return x * x; }

// Of S^T's key channels the squares over this lane's two V columns, summed, in bf16: shares of what
// a warp's 16 columns have in a channel.  Summing them is left to the few that ask for it.
template <int count>  // of 8 channels
struct ChannelShares {
  using Element = element<abi::DType::bf16>;

  // Where those of so many a channels and one are noted, of each thread of the warpgroup its own.
  static KDA_DEVICE int noted(int thread, int k) { return 64 + k * 128 + thread; }
  static KDA_DEVICE float of(const float (&s)[4], int e) { return square(s[e]) + square(s[2 + e]); }
};

// Beyond, squares have lost their last bits or come to 0 or infinity, and say nothing.
KDA_DEVICE bool says_something(float squared) { return squared >= 0x1p-90F && squared <= 0x1p126F; }

// Notes S_local, of which this thread of the warpgroup has its share.
template <int count>
KDA_DEVICE void note(const float (&s)[count][4], float* to, int thread) {
  using Shares = ChannelShares<count>;
#pragma unroll
  for (int k = 0; k < count; ++k) {
    reinterpret_cast<u32*>(to)[Shares::noted(thread, k)] =
        Shares::Element::pack(Shares::of(s[k], 0), Shares::of(s[k], 1));
  }
  const RowSums columns(s, square);
  if (thread % 4 == 0) {
    to[column_noted(thread)] = columns.of[0];
    to[column_noted(thread) + 8] = columns.of[1];
  }
}

// Whether some channel of what is carried, or given up, may be seen beside that of S_local noted,
// of a warp's 16 V columns: x, a channel's square less what may be lost beside, is more than 0.
template <int count>
struct SeenChannels {
  const float (&s)[count][4];
  u32 noted[count];

  KDA_DEVICE SeenChannels(const float (&of)[count][4], const float* from, int thread) : s(of) {
#pragma unroll
    for (int k = 0; k < count; ++k) {
      noted[k] =
          __ldcg(reinterpret_cast<const u32*>(from) + ChannelShares<count>::noted(thread, k));
    }
  }

  KDA_DEVICE bool any() const {
    bool seen = false;
#pragma unroll
    for (int i = 0; i < count / 4; ++i) seen |= !(halved<4, count / 2>(i) <= 0.0F);
    return seen;
  }

 private:
  // Of two lanes with the same channels each has half of them after, summed over both: of its i-th,
  // of n before.
  template <int distance, int n>
  KDA_DEVICE float halved(int i) const {
    const float lower = whole<distance, n>(i), upper = whole<distance, n>(i + n / 2);
    const bool has_upper = (threadIdx.x & distance) != 0;
    const float given = has_upper ? lower : upper;
    return (has_upper ? upper : lower) + __shfl_xor_sync(0xffffffffU, given, distance);
  }
  template <int distance, int n>
  KDA_DEVICE float whole(int i) const {
    if constexpr (distance < 16) {
      return halved<2 * distance, 2 * n>(i);
    } else {
      constexpr float of_channel = abi::segments::most_lost_of_channel;
      constexpr float most = of_channel * of_channel;
      using Shares = ChannelShares<count>;
      const float2 beside = Shares::Element::unpack(noted[i / 2]);
      return Shares::of(s[i / 2], i % 2) - most * (i % 2 == 0 ? beside.x : beside.y);
    }
  }
};

template <int count>
KDA_DEVICE bool has_seen_channel(const float (&s)[count][4], const float* noted, int thread) {
  return SeenChannels<count>(s, noted, thread).any();
}

}  // namespace kda
