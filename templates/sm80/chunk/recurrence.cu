// Strategy chunk, stage 2: one block a (sequence, value head, shard of V) walks the chunks in
// order:
//   R = V - Kd S;   O = Qd S + Aq R;   S = diag(decay) S + Ak^T R
// with S^T in registers (step/state.cuh).  The factors stream through a ring of shared-memory slots
// in the order they are used: (Kd, v), (Qd, Aq), (Ak, decay) and perhaps the rest of Ak.
#include "abi/chunk.h"
#include "abi/shape.h"
#include "base/slots.cuh"
#include "base/tensor.cuh"
#include "base/varlen.cuh"
#include "ptx/cp_async.cuh"
#include "step/state.cuh"
#include "tile/decay.cuh"
#include "tile/operand.cuh"
#include "tile/scale.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::chunk::Tuning tune = KDA_TUNING;

constexpr abi::DType type = shape.qkv_type;
constexpr int chunk = tune.chunk;
constexpr int threads = tune.threads;
constexpr int warps = threads / 32;
constexpr int keys16 = round_up(shape.key_dim, 16);
constexpr int values = shape.value_dim;
constexpr int columns = round_up(ceil_div(values, tune.shards), 16 * warps);  // V columns a block
constexpr int tiles = columns / 16 / warps;                                   // of 16, a warp
constexpr int chunk_tiles = chunk / 8;
constexpr int parts = abi::chunk::factor_parts(shape);
constexpr abi::chunk::Image image = abi::chunk::image(shape, chunk);
constexpr float writer_scale = abi::chunk::writer_scale(shape);
constexpr int unit = 16 / abi::bytes_of(type);  // elements in 16 bytes

static_assert(tiles == 1 || tiles == 2, "a warp holds 16 or 32 columns: threads too few");

using Product = tile::Operand<type>;
using Factor = tile::Shared<type, chunk, keys16>;                              // Kd, Qd
using Writer = tile::Shared<type, chunk, keys16, tile::Reads::down_columns>;   // Ak
using Square = tile::Shared<type, chunk, chunk>;                               // Aq
using Values = tile::Shared<type, chunk, columns, tile::Reads::down_columns>;  // v
static_assert(Factor::bytes == Writer::bytes);

constexpr int side_bytes = round_up(
    larger(larger(Values::bytes, Square::bytes), Factor::width* static_cast<int>(sizeof(float))),
    1024);
constexpr int slot_bytes = Factor::bytes + side_bytes;
static_assert(Factor::width == abi::chunk::factor_keys(shape));
static_assert(columns == abi::chunk::block_columns(shape, tune));
static_assert(slot_bytes * tune.load_stages == abi::chunk::recurrence_shared_bytes(shape, tune));

// What one block works on.
struct Task {
  Sequence sequence;
  int n, head, value0;  // value0: the block's first V column
  i64 slot;             // of the sequence's first chunk
  int chunks;
};

KDA_DEVICE void copy_bytes(u32 to, const void* from, int bytes) {
#pragma unroll(keys16 > 128 ? 1 : 4)
  for (int at = static_cast<int>(threadIdx.x) * 16; at < bytes; at += threads * 16) {
    ptx::cp_async_16(to + at, static_cast<const char*>(from) + at);
  }
}

// Rows past the sequence and columns past V become zero and are never read.
KDA_DEVICE void copy_values(const Values& tile, const abi::Inputs& in, const Task& task, int at,
                            bool vectored) {
  const i64 first = static_cast<i64>(at) * chunk;
  const i64 left = task.sequence.length() - first;
  const i64 index = offset_of<shape.varlen>(in.v, task.n, task.sequence.begin, task.head) +
                    first * in.v.token + task.value0;
  const auto* from = static_cast<const storage<type>*>(in.v.data) + index;
  if (vectored) {
    for (int i = threadIdx.x; i < chunk * columns / unit; i += threads) {
      const int row = i / (columns / unit);
      const int column = i % (columns / unit) * unit;
      if (row < left && task.value0 + column < values) {
        ptx::cp_async_16(tile.address(row, column), from + row * in.v.token + column);
      } else {
        *reinterpret_cast<uint4*>(tile.data + Values::at(row, column)) = make_uint4(0, 0, 0, 0);
      }
    }
  } else {
    for (int i = threadIdx.x; i < chunk * columns; i += threads) {
      const int row = i / columns;
      const int column = i % columns;
      tile(row, column) = row < left && task.value0 + column < values
                              ? from[row * in.v.token + column]
                              : storage<type>(0);
    }
  }
}

// Part `part` of chunk `at` into its slot of the ring.
template <int part>
KDA_DEVICE void load_part(char* ring, const abi::chunk::RecurrenceArgs& args, const Task& task,
                          int at, bool vectored) {
  if (at < task.chunks) {
    char* slot = ring + (parts * at + part) % tune.load_stages * slot_bytes;
    const u32 to = ptx::shared_address(slot);
    const char* from =
        args.factors.images + ((task.slot + at) * args.in.value_heads + task.head) * image.bytes;
    if constexpr (part == 0) {
      copy_bytes(to, from + image.kd, Factor::bytes);
      copy_values(Values(slot + Factor::bytes), args.in, task, at, vectored);
    } else if constexpr (part == 1) {
      copy_bytes(to, from + image.qd, Factor::bytes);
      copy_bytes(to + Factor::bytes, from + image.aq, Square::bytes);
    } else if constexpr (part == 2) {
      copy_bytes(to, from + image.ak, Writer::bytes);
      copy_bytes(to + Factor::bytes, from + image.decay, Factor::width * 4);
    } else {
      copy_bytes(to, from + image.ak_rest, Writer::bytes);
    }
  }
  ptx::cp_async_commit();
}

using State = step::State<shape, tiles>;
using Accumulators = float[tiles][chunk_tiles][4];  // [V, C]

template <int count>
KDA_DEVICE float largest(const float (&x)[tiles][count][4]) {
  float m = 0.0F;
#pragma unroll
  for (int i = 0; i < tiles * count * 4; ++i) m = fmaxf(m, fabsf((&x[0][0][0])[i]));
  return m;
}

template <int count>
KDA_DEVICE void scale_by(float (&x)[tiles][count][4], float factor) {
#pragma unroll
  for (int i = 0; i < tiles * count * 4; ++i) (&x[0][0][0])[i] *= factor;
}

// A operand: columns 16 k .. 16 k + 15 of x, in the operand's scale.
template <int count>
KDA_DEVICE typename Product::A operand(const float (&x)[count][4], int k,
                                       const tile::Scale<type>& scale) {
  float lo[4];
  float hi[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    lo[e] = tile::Scale<type>::needed ? x[2 * k][e] * scale.up : x[2 * k][e];
    hi[e] = tile::Scale<type>::needed ? x[2 * k + 1][e] * scale.up : x[2 * k + 1][e];
  }
  return Product::from_c(lo, hi);
}

// acc[V, C] += S^T[V, K] factor[C, K]^T
KDA_DEVICE void read_state(Accumulators& acc, const State& state, const Factor& factor,
                           const tile::Scale<type>& scale) {
  const auto from = Product::rows(factor, 0, 0);
#pragma unroll
  for (int k = 0; k < keys16 / 16; ++k) {
    typename Product::A a[tiles];
#pragma unroll
    for (int m = 0; m < tiles; ++m) a[m] = operand(state.s[m], k, scale);
#pragma unroll
    for (int c = 0; c < chunk_tiles; c += 2) {
      typename Product::B b[2];
      Product::load_b2(b, from, c * 8, k * 16);
#pragma unroll
      for (int m = 0; m < tiles; ++m) {
        Product::multiply(acc[m][c], a[m], b[0]);
        Product::multiply(acc[m][c + 1], a[m], b[1]);
      }
    }
  }
}

// r = v^T - r * down
template <abi::DType type = kda::type>
KDA_DEVICE void subtract_from_values(Accumulators& r, const Values& v, float down) {
  const int l = threadIdx.x % 32;
  const int column0 = static_cast<int>(threadIdx.x) / 32 * 16 * tiles;
  const auto from = type == abi::DType::f32 ? v.place(l % 4 * 2, column0 + l / 4)
                                            : v.place(l % 8 + l / 16 * 8, column0 + l / 8 % 2 * 8);
#pragma unroll
  for (int m = 0; m < tiles; ++m) {
    if constexpr (type == abi::DType::f32) {
#pragma unroll
      for (int c = 0; c < chunk_tiles; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float x = tile::Operand<type>::below(from, c * 8, m * 16 + e / 2 * 8, e % 2);
          r[m][c][e] = x - r[m][c][e] * down;
        }
      }
    } else {
#pragma unroll
      for (int c = 0; c < chunk_tiles; c += 2) {
        u32 x[4];
        ptx::ldmatrix_x4_trans(x, from.at(c * 8, m * 16));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float2 pair = element<type>::unpack(x[i]);
          float* to = &r[m][c + i / 2][i % 2 * 2];
          to[0] = pair.x - to[0] * down;
          to[1] = pair.y - to[1] * down;
        }
      }
    }
  }
}

// o[C, V] = scale * acc^T, rows and columns that exist.  whole: all of them do, and pairs of
// columns are aligned.
template <bool whole, abi::DType type = kda::type>
KDA_DEVICE void write_outputs(const Accumulators& acc, storage<type>* o, i64 token, i64 left,
                              int value0, float scale, bool paired) {
  const tile::Lane lane;
#pragma unroll
  for (int c = 0; c < chunk_tiles; ++c) {
#pragma unroll
    for (int m = 0; m < tiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float x0 = scale * acc[m][c][2 * half];
        const float x1 = scale * acc[m][c][2 * half + 1];
        if constexpr (type == abi::DType::f32) {
          const int value = value0 + m * 16 + lane.g + half * 8;
          const int row = c * 8 + 2 * lane.t;
          if (whole || (value < values && row < left)) o[row * token + value] = x0;
          if (whole || (value < values && row + 1 < left)) o[(row + 1) * token + value] = x1;
        } else {
          const u32 pair = ptx::movmatrix_trans(element<type>::pack(x0, x1));
          const int value = value0 + m * 16 + half * 8 + 2 * lane.t;
          const int row = c * 8 + lane.g;
          auto* to = o + row * token + value;
          if (whole) {
            *reinterpret_cast<u32*>(to) = pair;
          } else if (row < left) {
            if (paired) {
              if (value < values) *reinterpret_cast<u32*>(to) = pair;
            } else {
              if (value < values) to[0] = static_cast<u16>(pair);
              if (value + 1 < values) to[1] = static_cast<u16>(pair >> 16);
            }
          }
        }
      }
    }
  }
}

// S^T = S^T diag(decay), in the units of R's operands and Ak's image.
KDA_DEVICE void decay_state(State& state, const float* decay, float unit) {
  const tile::Lane lane;
#pragma unroll
  for (int k = 0; k < keys16 / 8; ++k) {
    const float2 d =
        *reinterpret_cast<const float2*>(decay + tile::decay_place(k * 8 + 2 * lane.t));
    const float d0 = d.x * unit;
    const float d1 = d.y * unit;
#pragma unroll
    for (int m = 0; m < tiles; ++m) {
      state.s[m][k][0] *= d0;
      state.s[m][k][1] *= d1;
      state.s[m][k][2] *= d0;
      state.s[m][k][3] *= d1;
    }
  }
}

// S^T += R^T Ak
KDA_DEVICE void write_state(State& state, const Accumulators& r, const Writer& ak,
                            const tile::Scale<type>& scale) {
  const auto from = Product::down(ak, 0, 0);
#pragma unroll
  for (int c = 0; c < chunk / 16; ++c) {
    typename Product::A a[tiles];
#pragma unroll
    for (int m = 0; m < tiles; ++m) a[m] = operand(r[m], c, scale);
#pragma unroll
    for (int k = 0; k < keys16 / 8; k += 2) {
      typename Product::B b[2];
      Product::load_b2_down(b, from, c * 16, k * 8);
#pragma unroll
      for (int m = 0; m < tiles; ++m) {
        Product::multiply(state.s[m][k], a[m], b[0]);
        Product::multiply(state.s[m][k + 1], a[m], b[1]);
      }
    }
  }
}

// The first `count` parts of the sequence.
template <int count>
KDA_DEVICE void load_first(char* ring, const abi::chunk::RecurrenceArgs& args, const Task& task,
                           bool vectored) {
  if constexpr (count > 0) {
    load_first<count - 1>(ring, args, task, vectored);
    load_part<(count - 1) % parts>(ring, args, task, (count - 1) / parts, vectored);
  }
}

// Waits for part `part` of chunk `at`, frees the slot before it and starts the next load into that.
template <int part>
KDA_DEVICE char* next_part(char* ring, const abi::chunk::RecurrenceArgs& args, const Task& task,
                           int at, bool vectored) {
  constexpr int ahead = part + tune.load_stages - 1;
  ptx::cp_async_wait<tune.load_stages - 2>();
  __syncthreads();
  load_part<ahead % parts>(ring, args, task, at + ahead / parts, vectored);
  return ring + (parts * at + part) % tune.load_stages * slot_bytes;
}

extern "C" __global__ void __launch_bounds__(threads, 1)
    kda_chunk_recurrence(const __grid_constant__ abi::chunk::RecurrenceArgs args) {
  extern __shared__ __align__(1024) char memory[];
  char* ring = memory;

  const abi::Inputs& in = args.in;
  Task task;
  task.value0 = static_cast<int>(blockIdx.x % tune.shards) * columns;
  task.head = static_cast<int>(blockIdx.x / tune.shards % in.value_heads);
  task.n = static_cast<int>(blockIdx.x / tune.shards / in.value_heads);
  task.sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, task.n);
  task.slot = first_slot(task.sequence.begin, task.n, chunk);
  task.chunks = static_cast<int>((task.sequence.length() + chunk - 1) / chunk);

  auto* outputs = static_cast<storage<type>*>(const_cast<void*>(args.out.o.data)) +
                  offset_of<shape.varlen>(args.out.o, task.n, task.sequence.begin, task.head);
  const Slots<shape> slots(args.out, task.n);
  if (shape.state_pool && slots.padding) {
    if (shape.zero_padding) {
      write_zeros<type>(outputs + task.value0, args.out.o.token, task.sequence.length(),
                        smaller(columns, values - task.value0), threads);
    }
    return;
  }

  const bool vectored = is_vectored<type>(in.v, values);
  const bool paired = is_paired<type>(args.out.o, values);
  load_first<tune.load_stages - 1>(ring, args, task, vectored);
  State state;
  const int value0 = task.value0 + static_cast<int>(threadIdx.x) / 32 * 16 * tiles;
  if (slots.has_start()) {
    state.load_paired(slots.start(args.out, in, task.head), value0);
  } else {
    state.clear();
  }
  Checkpoints<shape> checkpoints(args.out.pool, task.n, chunk);

  for (int at = 0; at < task.chunks; ++at) {
    tile::Scale<type> state_scale;
    if constexpr (tile::Scale<type>::needed) state_scale.choose(largest(state.s));
    tile::Scale<type> r_scale;

    char* slot = next_part<0>(ring, args, task, at, vectored);
    Accumulators r = {};
    read_state(r, state, Factor(slot), state_scale);
    subtract_from_values(r, Values(slot + Factor::bytes), state_scale.down);
    if constexpr (tile::Scale<type>::needed) r_scale.choose(largest(r));

    slot = next_part<1>(ring, args, task, at, vectored);
    Accumulators o = {};
    read_state(o, state, Factor(slot), state_scale);
    if (tile::Scale<type>::needed) scale_by(o, state_scale.down * r_scale.up * writer_scale);
    const auto aq = Product::rows(Square(slot + Factor::bytes), 0, 0);
#pragma unroll
    for (int k = 0; k < chunk / 16; ++k) {
      typename Product::A a[tiles];
#pragma unroll
      for (int m = 0; m < tiles; ++m) a[m] = operand(r[m], k, r_scale);
#pragma unroll
      for (int c = 2 * k; c < chunk_tiles; c += 2) {  // Aq is lower
        typename Product::B b[2];
        Product::load_b2(b, aq, c * 8, k * 16);
#pragma unroll
        for (int m = 0; m < tiles; ++m) {
          Product::multiply(o[m][c], a[m], b[0]);
          Product::multiply(o[m][c + 1], a[m], b[1]);
        }
      }
    }
    const i64 first = static_cast<i64>(at) * chunk;
    const i64 left = task.sequence.length() - first;
    auto* to = outputs + first * args.out.o.token;
    const float scale = in.scale * r_scale.down / writer_scale;
    if (left >= chunk && paired && value0 + 16 * tiles <= values) {
      write_outputs<true>(o, to, args.out.o.token, left, value0, scale, paired);
    } else {
      write_outputs<false>(o, to, args.out.o.token, left, value0, scale, paired);
    }

    slot = next_part<2>(ring, args, task, at, vectored);
    decay_state(state, reinterpret_cast<const float*>(slot + Factor::bytes),
                r_scale.up * writer_scale);
    write_state(state, r, Writer(slot), r_scale);
    if constexpr (parts == 4) {
      slot = next_part<3>(ring, args, task, at, vectored);
      write_state(state, r, Writer(slot), r_scale);
    }
    if (tile::Scale<type>::needed) scale_by(state.s, r_scale.down / writer_scale);
    if constexpr (shape.checkpoints) {
      if (left >= chunk) {
        const i64 kept = checkpoints.step();
        if (kept != no_slot)
          state.store_paired(Slots<shape>::at(args.out, in, kept, task.head), value0);
      }
    }
  }

  ptx::cp_async_wait<0>();
  if constexpr (shape.final_state) {
    state.store_paired(Slots<shape>::at(args.out, in, slots.own, task.head), value0);
  }
}

}  // namespace kda
