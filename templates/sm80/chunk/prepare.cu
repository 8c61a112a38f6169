// Strategy chunk, stage 1: one block a (chunk, value head) turns q, k, g and beta into the folded
// factors Kd, Qd, Ak, Aq and the chunk's decay (abi/chunk.h), token-parallel.
#include "abi/chunk.h"
#include "abi/shape.h"
#include "base/guard.cuh"
#include "base/tensor.cuh"
#include "base/varlen.cuh"
#include "ptx/dependent.cuh"
#include "sm80/chunk/wy.cuh"
#include "step/gate.cuh"
#include "step/inverse.cuh"
#include "step/normalize.cuh"
#include "step/row_group.cuh"
#include "step/scores.cuh"
#include "tile/decay.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::chunk::PrepareTuning tune = KDA_TUNING;

constexpr abi::DType type = shape.qkv_type;
constexpr int chunk = tune.chunk;
constexpr int threads = tune.prepare_threads;
constexpr int warps = threads / 32;
constexpr int groups = chunk / 8;        // of 8 rows
constexpr int lanes = threads / groups;  // threads a row group
constexpr int slab = 2 * lanes;          // channels at once, two a thread
constexpr int keys = shape.key_dim;
constexpr int keys16 = round_up(keys, 16);
constexpr bool careful = abi::chunk::steps_may_exceed_one(shape);
constexpr bool has_norms = shape.l2norm_qk || shape.qk_normalized;
constexpr bool writes_twice = abi::chunk::writes_twice(shape);
constexpr abi::chunk::Image image = abi::chunk::image(shape, chunk);
// Terms of the scores' products and of those with their inverse.  What tf32 cuts off is as much as
// an f16 image does: of keys that repeat, whose writes cancel, that is what is left.
constexpr int score_splits = type == abi::DType::f32 ? 4 : (type == abi::DType::f16 ? 3 : 1);
constexpr int splits = type != abi::DType::bf16 || careful ? 3 : 1;
constexpr float writer_scale = abi::chunk::writer_scale(shape);
constexpr bool one_slab = slab >= keys16;  // then norms come from the registers

// Blocks a multiprocessor is to hold: 16-bit problems fit 128 registers a thread, but for what a
// guarded kernel's loop holds, and split products of several slabs.
constexpr bool fits_128 = type != abi::DType::f32 && (one_slab || splits == 1);
constexpr int resident = guarded ? 1 : larger(1, (fits_128 ? 512 : 256) / threads);

static_assert(chunk == 16 || chunk == 32 || chunk == 64, "chunk must be 16, 32 or 64");
static_assert(slab >= 32 && slab <= 128, "prepare_threads must be 2 to 8 times chunk");

using Scores = step::Scores<chunk, slab, warps, score_splits>;
using Inverse = step::Inverse<chunk, warps>;
using Matrix = Scores::Matrix;
using Remainder = tile::Shared<abi::DType::f32, chunk, keys16, tile::Reads::down_columns>;
using Product = tile::Operand<abi::DType::f32, splits>;
using Factor = tile::Shared<type, chunk, keys16>;
using Writer = tile::Shared<type, chunk, keys16, tile::Reads::down_columns>;
using Square = tile::Shared<type, chunk, chunk>;
static_assert(Factor::width == abi::chunk::factor_keys(shape));

constexpr int partial_sums = larger(1, lanes / 32);  // warps that share a row group

struct SharedMemory {
  float totals[groups * slab];  // decay over each row group, of one slab
  float q_norm[chunk], k_norm[chunk], beta[chunk];
  float squares[partial_sums][groups][16];        // of q and k, of each row
  alignas(128) char remainder[Remainder::bytes];  // Kr = k exp(Pn - P)
  union {
    alignas(128) char tiles[3][Scores::Tile::bytes];  // while the scores are built
    alignas(128) char matrices[3][Matrix::bytes];     // L, queries, M after that
  };
};
static_assert(sizeof(SharedMemory) <= abi::chunk::prepare_shared_bytes(shape, tune));

// Columns (column, column + 1) of a row of an image.
template <class Tile>
KDA_DEVICE void put(char* image, u32 row, u32 column, float x, float y) {
  store_pair<type>(image + Tile::at(row, column), 0, x, y);
}

// Ak[c, channel] = beta_c sum_i M[i, c] Kr[i, channel]
KDA_DEVICE void write_ak(char* image, char* rest, const Matrix& m, const Remainder& kr,
                         const float* beta) {
  constexpr int strips = Writer::width / 16;
  const tile::Lane lane;
  for (u32 piece = threadIdx.x / 32; piece < chunk / 16 * strips; piece += warps) {
    const u32 row = piece / strips * 16;
    const u32 column = piece % strips * 16;
    float c[2][4] = {};
    if (column < keys16) {
      const auto from_a = Product::down(m, 0, row);
      const auto from_b = Product::down(kr, 0, column);
#pragma unroll
      for (int k0 = 0; k0 < chunk; k0 += 16) {
        if (k0 >= row) {  // M is lower
          Product::A a;
          Product::B b[2];
          Product::load_a_down(a, from_a, k0, 0);
          a.round();
          Product::load_b2_down(b, from_b, k0, 0);
          Product::multiply(c[0], a, b[0]);
          Product::multiply(c[1], a, b[1]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 r = row + lane.g + i % 2 * 8;
      const float* pair = c[i / 2] + i % 2 * 2;
      const u32 j = column + i / 2 * 8 + 2 * lane.t;
      const float x = beta[r] * writer_scale * pair[0];
      const float y = beta[r] * writer_scale * pair[1];
      put<Writer>(image, r, j, x, y);
      if constexpr (writes_twice) {
        using Element = element<type>;
        put<Writer>(rest, r, j, x - Element::to_float(Element::from_float(x)),
                    y - Element::to_float(Element::from_float(y)));
      }
    }
  }
}

// Aq[i, j] = beta_j sum_m queries[i, m] M[m, j]
KDA_DEVICE void write_aq(char* image, const Matrix& queries, const Matrix& m, const float* beta) {
  constexpr int strips = Square::width / 16;
  const tile::Lane lane;
  for (u32 piece = threadIdx.x / 32; piece < chunk / 16 * strips; piece += warps) {
    const u32 row = piece / strips * 16;
    const u32 column = piece % strips * 16;
    float c[2][4] = {};
    if (column <= row) {
      const auto from_a = Product::rows(queries, row, 0);
      const auto from_b = Product::down(m, 0, column);
#pragma unroll
      for (int k0 = 0; k0 < chunk; k0 += 16) {
        if (k0 >= column && k0 <= row) {
          Product::A a;
          Product::B b[2];
          Product::load_a(a, from_a, 0, k0);
          Product::load_b2_down(b, from_b, k0, 0);
          b[0].round();
          b[1].round();
          Product::multiply(c[0], a, b[0]);
          Product::multiply(c[1], a, b[1]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 r = row + lane.g + i % 2 * 8;
      const u32 j = column + i / 2 * 8 + 2 * lane.t;
      const float* pair = c[i / 2] + i % 2 * 2;
      const bool exists = column <= row;
      put<Square>(image, r, j, exists ? beta[j] * writer_scale * pair[0] : 0.0F,
                  exists ? beta[j + 1] * writer_scale * pair[1] : 0.0F);
    }
  }
}

// What a row is multiplied by, given its sum of squares.
KDA_DEVICE float norm_of(float squares, bool is_key) {
  if constexpr (shape.l2norm_qk) {
    return step::unit_factor(squares);
  } else {
    return step::as_given(!is_key || squares <= abi::chunk::most_key * abi::chunk::most_key);
  }
}

// Norms of q and k from the registers of a block that holds whole rows.
KDA_DEVICE void norms_of(SharedMemory& shared, const step::RowGroup& part, int group) {
  float squares[16];
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    squares[r] = part.q[r].x * part.q[r].x + part.q[r].y * part.q[r].y;
    squares[8 + r] = part.k[r].x * part.k[r].x + part.k[r].y * part.k[r].y;
  }
  constexpr int width = smaller(lanes, 32);
  const float sum = step::sum16<width>(squares);
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  if (lane % (width / 16) == 0) {
    shared.squares[lane / 32][group][lane % 32 / (width / 16)] = sum;
  }
  __syncthreads();
  if (threadIdx.x < 2 * chunk) {
    const int row = threadIdx.x % chunk;
    const int which = threadIdx.x / chunk;  // q, k
    float total = 0.0F;
#pragma unroll
    for (int i = 0; i < partial_sums; ++i) total += shared.squares[i][row / 8][which * 8 + row % 8];
    (which == 0 ? shared.q_norm : shared.k_norm)[row] = norm_of(total, which == 1);
  }
  __syncthreads();
}

// The factors of a slot's chunk for a head.
KDA_DEVICE void prepare(SharedMemory& shared, const abi::chunk::PrepareArgs& args, i64 slot,
                        int head) {
  const abi::Inputs& in = args.in;
  const int n = sequence_at<shape.varlen, shape.cu_seqlens_type>(in, slot, chunk);
  const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n);
  const i64 first = (slot - first_slot(sequence.begin, n, chunk)) * chunk;  // within the sequence
  if (first < 0 || first >= sequence.chunked(tune.short_tokens)) return;    // an empty slot
  const int rows =
      static_cast<int>(sequence.length() - first < chunk ? sequence.length() - first : chunk);

  const int qk_head = head / shape.group;
  step::Origin origin;
  origin.q = offset_of<shape.varlen>(in.q, n, sequence.begin, qk_head) + first * in.q.token;
  origin.k = offset_of<shape.varlen>(in.k, n, sequence.begin, qk_head) + first * in.k.token;
  origin.g = offset_of<shape.varlen>(in.g, n, sequence.begin, head) + first * in.g.token;
  const i64 beta0 =
      offset_of<shape.varlen>(in.beta, n, sequence.begin, head) + first * in.beta.token;
  const bool paired = is_paired<type>(in.q, keys) && is_paired<type>(in.k, keys) &&
                      is_paired<shape.gate_type>(in.g, keys);

  const u32 thread = threadIdx.x;
  if (thread < chunk) {
    shared.beta[thread] = thread < rows ? step::write_strength<shape>(load<shape.beta_type>(
                                              in.beta.data, beta0 + thread * in.beta.token))
                                        : 0.0F;
  }
  if constexpr (has_norms && !one_slab) {
    for (int row = static_cast<int>(thread / 32); row < chunk; row += warps) {
      const int at = row < rows ? row : rows - 1;
      const auto norm_at = [&](const void* data, i64 index, bool is_key) {
        return norm_of(step::row_squares<type, keys>(data, index), is_key);
      };
      const float q_norm = norm_at(in.q.data, origin.q + at * in.q.token, false);
      const float k_norm = norm_at(in.k.data, origin.k + at * in.k.token, true);
      if (thread % 32 == 0) {
        shared.q_norm[row] = q_norm;
        shared.k_norm[row] = k_norm;
      }
    }
    __syncthreads();
  }

  const i64 tile = slot * in.value_heads + head;
  char* to = args.factors.images + tile * image.bytes;
  char* kd = to + image.kd;
  char* qd = to + image.qd;
  auto* decay = reinterpret_cast<float*>(to + image.decay);

  const Scores::Tile k_tile(shared.tiles[0]);
  const Scores::Tile q_tile(shared.tiles[1]);
  const Scores::Tile k_columns(shared.tiles[2]);
  const Remainder remainder(shared.remainder);
  const float rate = step::gate_rate<shape>(in.A_log, head);

  const int group = static_cast<int>(thread / lanes);
  const int channel = static_cast<int>(thread % lanes * 2);  // within the slab
  Scores scores;
#pragma unroll 1
  for (int slab0 = 0; slab0 < Factor::width; slab0 += slab) {
    const int c = slab0 + channel;
    step::RowGroup part;
    step::load_raw<shape>(part, in, origin, group * 8, rows, c, paired);
    const float2 bias =
        make_float2(c < keys ? step::gate_bias<shape>(in.dt_bias, head, c) : 0.0F,
                    c + 1 < keys ? step::gate_bias<shape>(in.dt_bias, head, c + 1) : 0.0F);
    step::settle<shape>(part, group * 8, rows, c, rate, bias, in.lower_bound);
    if constexpr (has_norms) {
      if constexpr (one_slab) {
        if (slab0 == 0) norms_of(shared, part, group);
      }
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        part.q[r] = step::times(part.q[r], shared.q_norm[group * 8 + r]);
        part.k[r] = step::times(part.k[r], shared.k_norm[group * 8 + r]);
      }
    }
    float2 total = part.a[0];
#pragma unroll
    for (int r = 1; r < 8; ++r) total = step::times(total, part.a[r]);
    *reinterpret_cast<float2*>(shared.totals + group * slab + channel) = total;
    __syncthreads();

    // Kd, Qd from the chunk's start, Kr to its end.
    float2 before = make_float2(1.0F, 1.0F);
    float2 after = make_float2(1.0F, 1.0F);
#pragma unroll
    for (int i = 0; i < groups; ++i) {
      const float2 x = *reinterpret_cast<const float2*>(shared.totals + i * slab + channel);
      if (i < group) before = step::times(before, x);
      if (i > group) after = step::times(after, x);
    }
    if (c < Factor::width) {
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        before = step::times(before, part.a[r]);
        const float2 k = step::times(part.k[r], before);
        const float2 q = step::times(part.q[r], before);
        put<Factor>(kd, group * 8 + r, c, k.x, k.y);
        put<Factor>(qd, group * 8 + r, c, q.x, q.y);
      }
      if (group == groups - 1) *reinterpret_cast<float2*>(decay + tile::decay_place(c)) = before;
    }
    if (c < keys16) {
#pragma unroll
      for (int r = 7; r >= 0; --r) {
        remainder.pair(group * 8 + r, c) = Product::rounded(step::times(part.k[r], after));
        after = step::times(after, part.a[r]);
      }
    }
    if (slab0 < keys16)
      scores.slab_of(k_tile, q_tile, k_columns, part, shared.totals, group, channel);
  }

  const Matrix l(shared.matrices[0]);
  const Matrix queries(shared.matrices[1]);
  const Matrix m(shared.matrices[2]);
  for (u32 i = thread; i < Matrix::bytes / 4; i += threads) {
    reinterpret_cast<float*>(shared.matrices[2])[i] = 0.0F;
  }
  scores.finish<splits == 1>(l, queries, shared.beta);
  __syncthreads();
  Inverse::invert(m, l);
  write_ak(to + image.ak, to + image.ak_rest, m, remainder, shared.beta);
  write_aq(to + image.aq, queries, m, shared.beta);
  if constexpr (shape.wy_tensors) {
    wy::write<shape, chunk, threads, Factor>(args.w, args.u, in, kd, m, shared.beta, n, head, first,
                                             rows);
  }
}

extern "C" __global__ void __launch_bounds__(threads, resident)
    kda_chunk_prepare(const __grid_constant__ Guardable<abi::chunk::PrepareArgs> given) {
  extern __shared__ char memory[];
  SharedMemory& shared = *reinterpret_cast<SharedMemory*>(memory);
  const abi::chunk::PrepareArgs& args = unguarded(given);
  static_assert(!guarded || guard == abi::Guard::found, "groups prepare where lengths decide");
  if constexpr (!guarded) {
    prepare(shared, args, blockIdx.x, static_cast<int>(blockIdx.y));
  } else {
    // By as few blocks as the device holds: as a rule all of them have nothing to do.
    if (stays_out<shape>(given, args.in)) {
      move_instead(given);
      return;
    }
    const i64 tiles = args.factors.slots * args.in.value_heads;
    for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      prepare(shared, args, tile / args.in.value_heads,
              static_cast<int>(tile % args.in.value_heads));
      __syncthreads();
    }
  }
}

}  // namespace kda
