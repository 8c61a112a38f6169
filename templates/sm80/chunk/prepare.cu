// Strategy chunk, stage 1: one block a (chunk, value head) turns q, k, g and beta into the folded
// factors Kd, Qd, Ak, Aq and the chunk's decay (abi/chunk.h), token-parallel.
#include "abi/chunk.h"
#include "abi/shape.h"
#include "base/tensor.cuh"
#include "base/varlen.cuh"
#include "step/gate.cuh"
#include "step/inverse.cuh"
#include "step/normalize.cuh"
#include "step/scores.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::chunk::Tuning tune = KDA_TUNING;

constexpr int chunk = tune.chunk;
constexpr int threads = tune.prepare_threads;
constexpr int warps = threads / 32;
constexpr int groups = chunk / 8;           // of 8 rows
constexpr int slab = 2 * threads / groups;  // channels at once, two a thread
constexpr int keys = shape.key_dim;
constexpr int keys16 = round_up(keys, 16);
constexpr int splits = shape.qkv_type == abi::DType::f32 ? 3 : 1;

static_assert(chunk == 16 || chunk == 32 || chunk == 64, "chunk must be 16, 32 or 64");
static_assert(slab >= 32 && slab <= 128, "prepare_threads must be 2 to 8 times chunk");

using Scores = step::Scores<chunk, slab, warps, splits>;
using Inverse = step::Inverse<chunk, warps>;
using Matrix = Scores::Matrix;
using Remainder = tile::Shared<abi::DType::f32, chunk, keys16, tile::Reads::down_columns>;
using Product = tile::Operand<abi::DType::f32, splits>;

struct SharedMemory {
  float totals[groups * slab];  // decay over each row group, of one slab
  float q_norm[chunk], k_norm[chunk], beta[chunk];
  alignas(128) char remainder[Remainder::bytes];  // Kr = k exp(Pn - P)
  union {
    alignas(128) char tiles[3][Scores::Tile::bytes];  // while the scores are built
    alignas(128) char matrices[3][Matrix::bytes];     // L, queries, M after that
  };
};
static_assert(sizeof(SharedMemory) <= abi::chunk::prepare_shared_bytes(shape, tune));

// Ak[c, channel] = beta_c sum_i M[i, c] Kr[i, channel]
KDA_DEVICE void write_ak(void* ak, const Matrix& m, const Remainder& kr, const float* beta) {
  constexpr int strips = keys16 / 16;
  const tile::Lane lane;
  for (int piece = threadIdx.x / 32; piece < chunk / 16 * strips; piece += warps) {
    const int row = piece / strips * 16;
    const int column = piece % strips * 16;
    const auto from_a = Product::down(m, 0, row);
    const auto from_b = Product::down(kr, 0, column);
    float c[2][4] = {};
#pragma unroll
    for (int k0 = 0; k0 < chunk; k0 += 16) {
      if (k0 >= row) {  // M is lower
        Product::A a;
        Product::B b[2];
        Product::load_a_down(a, from_a, k0, 0);
        Product::load_b2_down(b, from_b, k0, 0);
        Product::multiply(c[0], a, b[0]);
        Product::multiply(c[1], a, b[1]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = row + lane.g + i % 2 * 8;
      const float* pair = c[i / 2] + i % 2 * 2;
      store_pair<shape.qkv_type>(ak, r * keys16 + column + i / 2 * 8 + 2 * lane.t,
                                 beta[r] * pair[0], beta[r] * pair[1]);
    }
  }
}

// Aq[i, j] = beta_j sum_m queries[i, m] M[m, j]
KDA_DEVICE void write_aq(void* aq, const Matrix& queries, const Matrix& m, const float* beta) {
  constexpr int strips = chunk / 16;
  const tile::Lane lane;
  for (int piece = threadIdx.x / 32; piece < strips * strips; piece += warps) {
    const int row = piece / strips * 16;
    const int column = piece % strips * 16;
    const auto from_a = Product::rows(queries, row, 0);
    const auto from_b = Product::down(m, 0, column);
    float c[2][4] = {};
#pragma unroll
    for (int k0 = 0; k0 < chunk; k0 += 16) {
      if (k0 >= column && k0 <= row) {
        Product::A a;
        Product::B b[2];
        Product::load_a(a, from_a, 0, k0);
        Product::load_b2_down(b, from_b, k0, 0);
        Product::multiply(c[0], a, b[0]);
        Product::multiply(c[1], a, b[1]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = row + lane.g + i % 2 * 8;
      const int j = column + i / 2 * 8 + 2 * lane.t;
      const float* pair = c[i / 2] + i % 2 * 2;
      store_pair<shape.qkv_type>(aq, r * chunk + j, beta[j] * pair[0], beta[j + 1] * pair[1]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(threads, larger(1, 256 / threads))
    kda_chunk_prepare(const __grid_constant__ abi::chunk::PrepareArgs args) {
  extern __shared__ char memory[];
  SharedMemory& shared = *reinterpret_cast<SharedMemory*>(memory);

  const abi::Inputs& in = args.in;
  const int head = static_cast<int>(blockIdx.x % in.value_heads);
  const i64 slot = blockIdx.x / in.value_heads;
  const int n = sequence_at<shape.varlen, shape.cu_seqlens_type>(in, slot, chunk);
  const Sequence sequence = sequence_of<shape.varlen, shape.cu_seqlens_type>(in, n);
  const i64 first = (slot - first_slot(sequence.begin, n, chunk)) * chunk;  // within the sequence
  if (first < 0 || first >= sequence.length()) return;                      // an empty slot
  const int rows =
      static_cast<int>(sequence.length() - first < chunk ? sequence.length() - first : chunk);

  const int qk_head = head / shape.group;
  const i64 q0 = offset_of<shape.varlen>(in.q, n, sequence.begin, qk_head) + first * in.q.token;
  const i64 k0 = offset_of<shape.varlen>(in.k, n, sequence.begin, qk_head) + first * in.k.token;
  const i64 g0 = offset_of<shape.varlen>(in.g, n, sequence.begin, head) + first * in.g.token;
  const i64 beta0 =
      offset_of<shape.varlen>(in.beta, n, sequence.begin, head) + first * in.beta.token;
  const bool q_paired = is_paired<shape.qkv_type>(in.q, keys);
  const bool k_paired = is_paired<shape.qkv_type>(in.k, keys);
  const bool g_paired = is_paired<shape.gate_type>(in.g, keys);

  const int thread = threadIdx.x;
  for (int row = thread / 32; row < chunk; row += warps) {
    float q_norm = 1.0F;
    float k_norm = 1.0F;
    float beta = 0.0F;
    if (row < rows) {
      if constexpr (shape.l2norm_qk) {
        q_norm = step::row_norm<shape>(in.q.data, q0 + row * in.q.token, q_paired);
        k_norm = step::row_norm<shape>(in.k.data, k0 + row * in.k.token, k_paired);
      }
      beta = step::write_strength<shape>(
          load<shape.beta_type>(in.beta.data, beta0 + row * in.beta.token));
    }
    if (thread % 32 == 0) {
      shared.q_norm[row] = q_norm;
      shared.k_norm[row] = k_norm;
      shared.beta[row] = beta;
    }
  }
  __syncthreads();

  const i64 tile = slot * in.value_heads + head;
  void* kd = static_cast<storage<shape.qkv_type>*>(args.factors.kd) + tile * chunk * keys16;
  void* qd = static_cast<storage<shape.qkv_type>*>(args.factors.qd) + tile * chunk * keys16;
  void* ak = static_cast<storage<shape.qkv_type>*>(args.factors.ak) + tile * chunk * keys16;
  void* aq = static_cast<storage<shape.qkv_type>*>(args.factors.aq) + tile * chunk * chunk;
  float* decay = args.factors.decay + tile * keys16;

  const Scores::Tile k_tile(shared.tiles[0]);
  const Scores::Tile q_tile(shared.tiles[1]);
  const Scores::Tile k_columns(shared.tiles[2]);
  const Remainder remainder(shared.remainder);
  const float rate = step::gate_rate<shape>(in.A_log, head);

  const int group = thread / (slab / 2);
  const int channel = thread % (slab / 2) * 2;  // within the slab
  Scores scores;
  for (int slab0 = 0; slab0 < keys16; slab0 += slab) {
    const int c = slab0 + channel;
    const float bias0 = c < keys ? step::gate_bias<shape>(in.dt_bias, head, c) : 0.0F;
    const float bias1 = c + 1 < keys ? step::gate_bias<shape>(in.dt_bias, head, c + 1) : 0.0F;

    step::RowGroup part;
    float2 total = make_float2(1.0F, 1.0F);
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      const int row = group * 8 + r;
      part.q[r] = part.k[r] = make_float2(0.0F, 0.0F);
      part.a[r] = make_float2(1.0F, 1.0F);
      if (row < rows) {
        const float2 q =
            load_channels<shape.qkv_type>(in.q.data, q0 + row * in.q.token, c, keys, q_paired);
        const float2 k =
            load_channels<shape.qkv_type>(in.k.data, k0 + row * in.k.token, c, keys, k_paired);
        const float2 g =
            load_channels<shape.gate_type>(in.g.data, g0 + row * in.g.token, c, keys, g_paired);
        const float q_norm = shared.q_norm[row];
        const float k_norm = shared.k_norm[row];
        part.q[r] = make_float2(q.x * q_norm, q.y * q_norm);
        part.k[r] = make_float2(k.x * k_norm, k.y * k_norm);
        if (c < keys) part.a[r].x = step::decay<shape>(g.x, rate, bias0, in.lower_bound);
        if (c + 1 < keys) part.a[r].y = step::decay<shape>(g.y, rate, bias1, in.lower_bound);
      }
      total = step::times(total, part.a[r]);
    }
    *reinterpret_cast<float2*>(shared.totals + group * slab + channel) = total;
    __syncthreads();

    // Kd, Qd from the chunk's start, Kr to its end.
    float2 before = make_float2(1.0F, 1.0F);
    float2 after = make_float2(1.0F, 1.0F);
    for (int i = 0; i < groups; ++i) {
      const float2 x = *reinterpret_cast<const float2*>(shared.totals + i * slab + channel);
      if (i < group) before = step::times(before, x);
      if (i > group) after = step::times(after, x);
    }
    if (c < keys16) {
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        before = step::times(before, part.a[r]);
        const float2 k = step::times(part.k[r], before);
        const float2 q = step::times(part.q[r], before);
        store_pair<shape.qkv_type>(kd, (group * 8 + r) * keys16 + c, k.x, k.y);
        store_pair<shape.qkv_type>(qd, (group * 8 + r) * keys16 + c, q.x, q.y);
      }
      if (group == groups - 1) {
        decay[c] = before.x;
        decay[c + 1] = before.y;
      }
#pragma unroll
      for (int r = 7; r >= 0; --r) {
        remainder.pair(group * 8 + r, c) = step::times(part.k[r], after);
        after = step::times(after, part.a[r]);
      }
    }
    scores.slab_of(k_tile, q_tile, k_columns, part, shared.totals, group, channel);
  }

  const Matrix l(shared.matrices[0]);
  const Matrix queries(shared.matrices[1]);
  const Matrix m(shared.matrices[2]);
  for (int i = thread; i < Matrix::bytes / 4; i += threads) {
    reinterpret_cast<float*>(shared.matrices[2])[i] = 0.0F;
  }
  scores.finish(l, queries, shared.beta);
  __syncthreads();
  Inverse::invert(m, l);
  write_ak(ak, m, remainder, shared.beta);
  write_aq(aq, queries, m, shared.beta);
}

}  // namespace kda
