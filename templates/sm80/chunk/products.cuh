// The recurrence's products, each a warp's: with S^T in registers as their A operand or
// accumulator.
#pragma once

#include "ptx/ldmatrix.cuh"
#include "sm80/chunk/recurrence_sizes.cuh"
#include "tile/decay.cuh"
#include "tile/scale.cuh"

namespace kda {

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

// acc[V, C] += S^T[V, K] factor[C, K]^T, of the warp's key channels.
KDA_DEVICE void read_state(Accumulators& acc, const State& state, const Factor& factor,
                           const tile::Scale<type>& scale) {
#pragma unroll
  for (int k = 0; k < own_keys / 16; ++k) {
    const auto from = Product::rows(factor, 0, place_key(k));
    typename Product::A a[tiles];
#pragma unroll
    for (int m = 0; m < tiles; ++m) a[m] = operand(state.s[m], k, scale);
#pragma unroll
    for (int c = 0; c < chunk_tiles; c += 2) {
      typename Product::B b[2];
      Product::load_b2(b, from, c * 8, keys_from_place(k));
#pragma unroll
      for (int m = 0; m < tiles; ++m) {
        Product::multiply(acc[m][c], a[m], b[0]);
        Product::multiply(acc[m][c + 1], a[m], b[1]);
      }
    }
  }
}

// The same of both, of warps that share key channels: a state's operand serves twice.
KDA_DEVICE void read_state(Accumulators& r, Accumulators& o, const State& state, const Factor& kd,
                           const Factor& qd, const tile::Scale<type>& scale) {
#pragma unroll
  for (int k = 0; k < own_keys / 16; ++k) {
    const auto from_k = Product::rows(kd, 0, place_key(k));
    const auto from_q = Product::rows(qd, 0, place_key(k));
    typename Product::A a[tiles];
#pragma unroll
    for (int m = 0; m < tiles; ++m) a[m] = operand(state.s[m], k, scale);
#pragma unroll
    for (int c = 0; c < chunk_tiles; c += 2) {
      typename Product::B b[4];
      Product::load_b2(b, from_k, c * 8, keys_from_place(k));
      Product::load_b2(b + 2, from_q, c * 8, keys_from_place(k));
#pragma unroll
      for (int m = 0; m < tiles; ++m) {
        Product::multiply(r[m][c], a[m], b[0]);
        Product::multiply(r[m][c + 1], a[m], b[1]);
        Product::multiply(o[m][c], a[m], b[2]);
        Product::multiply(o[m][c + 1], a[m], b[3]);
      }
    }
  }
}

// r = v^T - r * down
template <abi::DType type = kda::type>
KDA_DEVICE void subtract_from_values(Accumulators& r, const Values& v, float down) {
  const int l = threadIdx.x % 32;
  const int column0 = warp_column();
  const auto from = type == abi::DType::f32 ? v.place(l % 4 * 2, column0 + l / 4)
                                            : v.place(l % 8 + l / 16 * 8, column0 + l / 8 % 2 * 8);
#pragma unroll
  for (int m = 0; m < tiles; ++m) {
    if constexpr (type == abi::DType::f32) {
#pragma unroll
      for (int c = 0; c < chunk_tiles; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float x = ProductOf<type>::below(from, c * 8, m * 16 + e / 2 * 8, e % 2);
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

// Tiles of O that a warp finds at a time where warps share key channels: one, or as many as one
// ldmatrix loads operands for.
constexpr int share_tiles = type == abi::DType::f32 ? 1 : 2;
using Share = float[share_tiles][4];

// Of tokens 8 c and V columns 16 m on, += R Aq, which is lower.
template <abi::DType type = kda::type>
KDA_DEVICE void read_writes(Share& o, const Accumulators& r, int m, int c,
                            const tile::Place<Square>& aq, const tile::Scale<type>& scale) {
#pragma unroll
  for (int k = 0; k <= c / 2; ++k) {
    typename Product::B b[share_tiles];
    if constexpr (type == abi::DType::f32) {
      ProductOf<type>::load_b(b[0], aq, c * 8, k * 16);
    } else {
      Product::load_b2(b, aq, c * 8, k * 16);
    }
    const auto a = operand(r[m], k, scale);
#pragma unroll
    for (int i = 0; i < share_tiles; ++i) Product::multiply(o[i], a, b[i]);
  }
}

// S^T = S^T diag(decay), in the units of R's operands and Ak's image.
KDA_DEVICE void decay_state(State& state, const float* decay, float unit) {
  const tile::Lane lane;
  const float* own = decay + warp_key();
#pragma unroll
  for (int k = 0; k < own_keys / 8; ++k) {
    const float2 d = *reinterpret_cast<const float2*>(own + tile::decay_place(k * 8 + 2 * lane.t));
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
#pragma unroll
  for (int c = 0; c < chunk / 16; ++c) {
    typename Product::A a[tiles];
#pragma unroll
    for (int m = 0; m < tiles; ++m) a[m] = operand(r[m], c, scale);
#pragma unroll
    for (int k = 0; k < own_keys / 8; k += 2) {
      const auto from = Product::down(ak, 0, place_key(k / 2));
      typename Product::B b[2];
      Product::load_b2_down(b, from, c * 16, keys_from_place(k / 2));
#pragma unroll
      for (int m = 0; m < tiles; ++m) {
        Product::multiply(state.s[m][k], a[m], b[0]);
        Product::multiply(state.s[m][k + 1], a[m], b[1]);
      }
    }
  }
}

// Where a chunk's rows of O go.
struct OutputRows {
  storage<type>* first;  // the chunk's first row
  i64 token;             // elements to the next one
  i64 left;              // rows that exist
  int value0;            // the warp's first V column
  bool paired;           // columns are aligned by pairs

  // o[C, V] = scale * x^T of the tile of tokens 8 c and V columns 16 m on: rows and columns that
  // exist.  whole: all of them do, and pairs are aligned.
  template <bool whole, abi::DType type = kda::type>
  KDA_DEVICE void write(const float (&x)[4], int m, int c, float scale) const {
    const tile::Lane lane;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float x0 = scale * x[2 * half];
      const float x1 = scale * x[2 * half + 1];
      if constexpr (type == abi::DType::f32) {
        const int value = value0 + m * 16 + lane.g + half * 8;
        const int row = c * 8 + 2 * lane.t;
        if (whole || (value < values && row < left)) first[row * token + value] = x0;
        if (whole || (value < values && row + 1 < left)) first[(row + 1) * token + value] = x1;
      } else {
        const u32 pair = ptx::movmatrix_trans(element<type>::pack(x0, x1));
        const int value = value0 + m * 16 + half * 8 + 2 * lane.t;
        const int row = c * 8 + lane.g;
        auto* to = first + row * token + value;
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

  KDA_DEVICE bool whole() const { return left >= chunk && paired && value0 + 16 * tiles <= values; }
};

}  // namespace kda
