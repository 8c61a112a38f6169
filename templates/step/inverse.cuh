// M = (I + L)^-1 for a strictly lower L [C, C] in f32: forward substitution in each 16 x 16
// diagonal block, then blocks merged in pairs, M21 = -M22 (L21 M11).  No powers of L are formed:
// they cancel catastrophically for correlated keys.
#pragma once

#include "base/types.cuh"
#include "tile/operand.cuh"

namespace kda::step {

template <int chunk, int warps>
struct Inverse {
  using Matrix = tile::Shared<abi::DType::f32, chunk, chunk, tile::Reads::down_columns>;
  using Product = tile::Operand<abi::DType::f32, 3>;

  // One thread a column of a diagonal block.
  static KDA_DEVICE void substitute(const Matrix& m, const Matrix& l) {
    const int thread = threadIdx.x;
    if (thread >= chunk) return;
    const int block = thread / 16 * 16;
    const int column = thread % 16;
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) x[i] = i == column ? 1.0F : 0.0F;
#pragma unroll
    for (int j = 0; j < 16; ++j) {  // x[j] is final: take it out of the rows below
#pragma unroll
      for (int i = j + 1; i < 16; ++i) x[i] -= l(block + i, block + j) * x[j];
      m(block + j, block + column) = x[j];
    }
  }

  // Pieces of 16 x 8 of the lower left s x s of every 2s block.
  template <int s>
  static KDA_DEVICE void merge(const Matrix& m, const Matrix& l) {
    constexpr int in_block = (s / 16) * (s / 8);
    constexpr int pieces = chunk / (2 * s) * in_block;
    constexpr int count = ceil_div(pieces, warps);
    const int warp = threadIdx.x / 32;
    const tile::Lane lane;
    float c[count][4];
#pragma unroll
    for (int pass = 0; pass < 2; ++pass) {  // T = L21 M11 into the place of M21, then M21 = -M22 T
#pragma unroll
      for (int i = 0; i < count; ++i) {
        const int index = warp * count + i;
#pragma unroll
        for (int e = 0; e < 4; ++e) c[i][e] = 0.0F;
        if (index < pieces) {
          const int block = index / in_block * 2 * s;
          const int row = block + s + index % in_block / (s / 8) * 16;
          const int column = block + index % (s / 8) * 8;
          const int inner = block + pass * s;
          const auto from_a = Product::rows(pass == 0 ? l : m, row, inner);
          const auto from_b = Product::down(m, inner, column);
#pragma unroll
          for (int k0 = 0; k0 < s; k0 += 16) {
            typename Product::A a;
            typename Product::B b;
            Product::load_a(a, from_a, 0, k0);
            Product::load_b_down(b, from_b, k0, 0);
            Product::multiply(c[i], a, b);
          }
        }
      }
      if (pass == 1) __syncthreads();
#pragma unroll
      for (int i = 0; i < count; ++i) {
        const int index = warp * count + i;
        if (index < pieces) {
          const int block = index / in_block * 2 * s;
          const int row = block + s + index % in_block / (s / 8) * 16;
          const int column = block + index % (s / 8) * 8;
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            m(row + lane.g + e / 2 * 8, column + 2 * lane.t + e % 2) =
                pass == 0 ? c[i][e] : -c[i][e];
          }
        }
      }
      __syncthreads();
    }
  }

  // Every warp of the block together.  m's upper blocks must be zero.
  static KDA_DEVICE void invert(const Matrix& m, const Matrix& l) {
    substitute(m, l);
    __syncthreads();
    if constexpr (chunk >= 32) merge<16>(m, l);
    if constexpr (chunk >= 64) merge<32>(m, l);
  }
};

}  // namespace kda::step
