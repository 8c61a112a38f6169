// A group of 4 warps (6 or 8 where K is 192 or 256) that turns q, k, g and beta of one chunk into
// its folded factors (abi/chunk.h) in shared memory, in place of the raw inputs.
//
// A warp has its share of the channels, of all tokens.  Its products' lanes hold the elements that
// the next product's operands want, so between raw inputs and scores nothing is exchanged.
#pragma once

#include "base/element.cuh"
#include "ptx/barrier.cuh"
#include "sm90/factors/scratch.cuh"
#include "sm90/factors/sizes.cuh"
#include "sm90/slabs/scratch.cuh"
#include "step/log_decay.cuh"
#include "tile/operand.cuh"

namespace kda {

using Scratch = either<tune.slabs != 0, slabs::Scratch, AnyGateScratch>;
static_assert(sizeof(Scratch) <= abi::factors::scratch_bytes(shape));

// Raw g in a slice: rows of a slab's channels, each slab of a warp's shifted by a row more than the
// one before, so that lanes meet every bank.
struct RawGate {
  using Word = storage<shape.gate_type>;
  static constexpr int shifts = 64 / slab;
  static constexpr int row_bytes = slab * sizeof(Word);
  static constexpr int bytes = (half_tokens + shifts - 1) * row_bytes;
  static_assert(bytes <= sizeof(AnyGateScratch::Slice));

  // Whether it stands at the slice's end, where D of the half's first eight tokens leaves it whole.
  static constexpr int end = (static_cast<int>(sizeof(AnyGateScratch::Slice)) - bytes) / 16 * 16;
  static constexpr bool at_end = tune.beside != 0 && end >= half_tokens / 2 * pitch * 4;

  static KDA_DEVICE Word* at(AnyGateScratch& scratch, int half, int channel) {
    const int number = channel / slab;
    return reinterpret_cast<Word*>(reinterpret_cast<char*>(&scratch.slices[number][half]) +
                                   (at_end ? end : 0)) +
           number % shifts * slab + channel % slab;
  }
};

// Which thread's what of the gate is: two channels of a half's tokens, 64 channels a warp.  Warps
// past the K-th thread have none.
struct Line {
  static constexpr int warps_a_half = keys / 64;

  int thread;  // of the group

  KDA_DEVICE bool exists() const { return thread < keys; }
  KDA_DEVICE int half() const { return thread / (keys / 2); }
  KDA_DEVICE int channel() const { return thread % (keys / 2) * 2; }
  KDA_DEVICE int first_channel() const { return thread / 32 % warps_a_half * 64; }  // the warp's
};

// The gate constants of this thread's two channels.
struct Gates {
  step::LogDecay<shape> x, y;

  static KDA_DEVICE int channel() { return static_cast<int>(threadIdx.x % (keys / 2)) * 2; }
  static KDA_DEVICE Gates of(const abi::Inputs& in, int head) {
    const float rate = step::gate_rate<shape>(in.A_log, head);
    const int c = channel();
    return {{rate, step::gate_bias<shape>(in.dt_bias, head, c), in.lower_bound},
            {rate, step::gate_bias<shape>(in.dt_bias, head, c + 1), in.lower_bound}};
  }
};

struct Group {
  static constexpr int threads = abi::factors::threads(shape);

  Scratch& shared;
  int thread = static_cast<int>(threadIdx.x) % threads;
  int warp = __shfl_sync(0xffffffffU, thread / 32, 0);  // known uniform
  int group = number();

  // Lane coordinates.  Of a block that also walks they follow from `thread`, which it finds anew
  // from time to time (sm90/fused/make.cuh); else from the special register, which makes h8 3%
  // faster.
  KDA_DEVICE tile::Lane lane() const {
    return tune.beside != 0 ? tile::Lane(static_cast<u32>(thread)) : tile::Lane();
  }

  KDA_DEVICE explicit Group(Scratch& scratch) : shared(scratch) {}

  static KDA_DEVICE int number() { return static_cast<int>(threadIdx.x) / threads; }

  // What the warp does while not all have the same to do, 0..3; those past it solve nothing.  Warps
  // of the same number share a scheduler: where few groups are latency's, another has the longest
  // part in each.
  KDA_DEVICE int role() const {
    return tune.beside == 0 ? warp : static_cast<int>(static_cast<u32>(warp + group) % 4);
  }

  // This thread's number in its warp.
  KDA_DEVICE int number_in_warp() const { return static_cast<int>(static_cast<u32>(thread) % 32); }

  KDA_DEVICE int own() const { return tune.beside != 0 ? group : number(); }

  // Until the whole group is here.
  KDA_DEVICE void meet() const {
    if constexpr (tune.groups == 1) {
      __syncthreads();
    } else {
      ptx::barrier_wait(1 + own(), threads);
    }
  }
  // The same, and whether any of its threads says so.
  KDA_DEVICE bool any(bool vote) const {
    if constexpr (tune.groups == 1) {
      return __syncthreads_or(vote);
    } else {
      return ptx::barrier_vote_any(1 + own(), threads, vote);
    }
  }

  // Address of this lane's row of the 16 x 16 piece (half, k step) of the warp's slab in an image.
  KDA_DEVICE u32 place(u32 image, int half, int ks) const {
    const u32 l = static_cast<u32>(thread) % 32;
    const u32 row = half * half_tokens + l % 16;
    const u32 column = warp * slab + ks * 16 + l / 16 * 8;
    return image + Factor::at(row, column);
  }

  static KDA_DEVICE void put(float* to, float2 x) { *reinterpret_cast<float2*>(to) = x; }
  static KDA_DEVICE float2 exp2_of(float2 x) {
    return make_float2(step::exp2f_approximate(x.x), step::exp2f_approximate(x.y));
  }
  static KDA_DEVICE float2 times(float2 x, float2 y) { return make_float2(x.x * y.x, x.y * y.y); }
  static KDA_DEVICE float2 times(float2 x, float y) { return make_float2(x.x * y, x.y * y); }
};

}  // namespace kda
