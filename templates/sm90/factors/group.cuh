// A group of 4 warps that turns q, k, g and beta of one chunk into its folded factors (abi/chunk.h)
// in shared memory, in place of the raw inputs.
//
// A warp has a quarter of the channels, of all tokens.  Its products' lanes hold the elements that
// the next product's operands want, so between raw inputs and scores nothing is exchanged.
#pragma once

#include "abi/factors.h"
#include "abi/shape.h"
#include "base/element.cuh"
#include "ptx/barrier.cuh"
#include "step/log_decay.cuh"
#include "tile/operand.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::factors::Tuning tune = KDA_TUNING;
constexpr abi::DType type = shape.qkv_type;
constexpr int keys = shape.key_dim;
constexpr int values = shape.value_dim;
constexpr int chunk = abi::factors::chunk;
constexpr abi::chunk::Image image = abi::chunk::image(shape, chunk);
// Bytes from a place in k or Kd to that in q or Qd (modulo 2^32), and in Kr or Ak.
constexpr u32 k_to_q = static_cast<u32>(image.qd) - image.kd;
constexpr u32 k_to_kr = image.ak - image.kd;

static_assert(type == abi::DType::bf16 && shape.l2norm_qk, "bf16 rows of unit length are served");
static_assert(keys == 64 || keys == 128, "K must be 64 or 128");

using Factor = tile::Shared<abi::DType::bf16, chunk, keys>;
using Square = tile::Shared<abi::DType::bf16, chunk, chunk>;
static_assert(image.aq == Factor::bytes && image.kd - image.aq == Square::bytes);

constexpr int slab = keys / 4;      // channels a warp
constexpr int k_steps = slab / 16;  // of its products
constexpr int pitch = slab + 8;     // floats a token of D, so that lanes meet every bank
constexpr int half_tokens = 16;

using F16 = element<abi::DType::f16>;
using Bf16 = element<abi::DType::bf16>;

// The group's scratch memory.  Parts of a union live at different times.
struct Scratch {
  // A warp's part of half the tokens: raw g and then D of its slab, then its share of the scores'
  // sums as its lanes hold them.
  union Slice {
    float decay[half_tokens][pitch];
    struct {
      float4 left[2][32];   // k k and q k: columns 0-7 of the diagonal block
      float2 right[2][32];  // rows 8-15 of its columns 8-15
      float4 below[2][32];  // columns 0-7 and 8-15 of the block below: k k here or q k (half 1)
    };
  };
  Slice slices[4][2];  // [warp][half]
  union {
    struct {
      float whole[2][keys];        // decay over each half
      float whole_log[2][keys];    // its log2
      float middle_log[2][keys];   // log2 decay up to each half's middle
      float squares[chunk][2][4];  // of k and q, a share a warp
    };
    struct {
      float lower[4][72];  // diagonal 8 x 8 blocks of beta_i k_i k_j: [column * 8 + row]
    };
  };
  union {
    struct {
      u16 inverse[2][16][24];   // [half]: M diag(beta), f16
      uint4 kk_below[32];       // f16 A operands by lane
      uint4 qk[3][32];          // first half, second half, below
      uint4 inverse_below[32];  // the block below, transposed, an f16 A operand
    };
    uint4 k_after[4][k_steps][32];  // [warp]: k of the first half to its end, by lane
    float pairs[2][2][16][16];      // [half]: k k and q k where the vote failed
  };
  float beta[chunk];
  // What a walking group's leader remembers (store.cuh), as no register is left to hold it.
  struct Departure {
    i64 tile;        // slot * HV + head of the tile at work
    u32* flag;       // of that
    u32* last_flag;  // of the one before, until it is raised; or null
    int number;      // of tiles begun
  } departure;
};
static_assert(sizeof(Scratch) <= abi::factors::scratch_bytes);

// Raw g in a slice: rows of a slab's channels, each slab of a warp's shifted by a row more than the
// one before, so that lanes meet every bank.
struct RawGate {
  using Word = storage<shape.gate_type>;
  static constexpr int shifts = 64 / slab;
  static constexpr int row_bytes = slab * sizeof(Word);
  static constexpr int bytes = (half_tokens + shifts - 1) * row_bytes;
  static_assert(bytes <= sizeof(Scratch::Slice));

  // Whether it stands at the slice's end, where D of the half's first eight tokens leaves it whole.
  static constexpr int end = (static_cast<int>(sizeof(Scratch::Slice)) - bytes) / 16 * 16;
  static constexpr bool at_end = tune.beside != 0 && end >= half_tokens / 2 * pitch * 4;

  static KDA_DEVICE Word* at(Scratch& scratch, int half, int channel) {
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
  static constexpr int threads = abi::factors::threads;

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

  // What the warp does while not all have the same to do, 0..3.  Warps of the same number share a
  // scheduler: where few groups are latency's, another has the longest part in each.
  KDA_DEVICE int role() const { return tune.beside == 0 ? warp : (warp + group) % 4; }

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
