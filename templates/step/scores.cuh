// The decayed scores of one chunk, exact for every gate:
//   keys(i, j)    = sum_c k_i[c] k_j[c] exp(P_i[c] - P_j[c])   i > j
//   queries(i, j) = sum_c q_i[c] k_j[c] exp(P_i[c] - P_j[c])   i >= j
//
// exp(P_i - P_j) is never formed as exp(P_i) exp(-P_j), which overflows.  The lower triangle is
// halved instead: in each block of 2h rows, a row of the second half is scaled by its decay since
// the middle and a row of the first half by its decay up to the middle; both lie in [0, 1] and
// their product is exact for h x h pairs at once.  Halving down to single rows serves every gate.
// Most gates let the last 16 rows go in one step, anchored at their middle, with the inverse
// factors for pairs on one side of it; that needs every decay over 8 rows to be above `leaf_limit`,
// which is asked of each chunk at run time.
//
// Each thread owns 8 consecutive rows (a row group) of one pair of channels.
#pragma once

#include "abi/shape.h"
#include "base/types.cuh"
#include "step/row_group.cuh"
#include "tile/operand.cuh"

namespace kda::step {

constexpr float leaf_limit = 1e-30F;

// The decay from the row group's edge: rows of the second half of a 2h block since its middle
// (inclusive), rows of the first half up to it (exclusive).  h = 8: the whole group is one half.
template <int h>
KDA_DEVICE void middle_factors(float2 (&factor)[8], const RowGroup& rows, bool second) {
#pragma unroll
  for (int block = 0; block < 8; block += smaller(2 * h, 8)) {
    if constexpr (h < 8) {
      float2 f = make_float2(1.0F, 1.0F);
#pragma unroll
      for (int r = h; r < 2 * h; ++r) factor[block + r] = f = times(f, rows.a[block + r]);
      f = make_float2(1.0F, 1.0F);
#pragma unroll
      for (int r = h - 1; r >= 0; --r) {
        factor[block + r] = f;
        f = times(f, rows.a[block + r]);
      }
    } else {
      float2 f = make_float2(1.0F, 1.0F);
      if (second) {
#pragma unroll
        for (int r = 0; r < 8; ++r) factor[r] = f = times(f, rows.a[r]);
      } else {
#pragma unroll
        for (int r = 7; r >= 0; --r) {
          factor[r] = f;
          f = times(f, rows.a[r]);
        }
      }
    }
  }
}

// A 16 x 8 piece of a score matrix: which matrix, where.
struct Piece {
  bool queries;
  int row, column;
};

// The pieces of level h: every (second half x first half) of the C / 2h blocks, keys then queries.
template <int chunk, int h>
struct Level {
  static constexpr int blocks = chunk / (2 * h);
  static constexpr int a_matrix = blocks * (h / 16) * (h / 8);
  static constexpr int pieces = 2 * a_matrix;
  static KDA_DEVICE Piece piece(int i) {
    const int j = i % a_matrix;
    const int block = j / ((h / 16) * (h / 8)) * 2 * h;
    return {i >= a_matrix, block + h + j / (h / 8) % (h / 16) * 16, block + j % (h / 8) * 8};
  }
};

// The pieces on the diagonal: its 16 x 16 blocks.
template <int chunk>
struct Diagonal {
  static constexpr int a_matrix = chunk / 8;
  static constexpr int pieces = 2 * a_matrix;
  static KDA_DEVICE Piece piece(int i) {
    const int j = i % a_matrix;
    return {i >= a_matrix, j / 2 * 16, j * 8};
  }
};

// Scores of one chunk held by the block's warps; call slab() for every slab of channels, then
// finish().  Tiles: [C, slab] f32.
template <int chunk, int slab, int warps, int splits>
struct Scores {
  using Tile = tile::Shared<abi::DType::f32, chunk, slab>;
  using Matrix = tile::Shared<abi::DType::f32, chunk, chunk, tile::Reads::down_columns>;
  using Product = tile::Operand<abi::DType::f32, splits>;
  static constexpr int groups = chunk / 8;

  template <class Pieces>
  static constexpr int held = ceil_div(Pieces::pieces, warps);

  float diagonal[held<Diagonal<chunk>>][4] = {};
  float level16[chunk >= 32 ? held<Level<chunk, 16>> : 1][4] = {};
  float level32[chunk >= 64 ? held<Level<chunk, 32>> : 1][4] = {};

  // Adds A[row ..] B[column ..]^T over the slab to every piece this warp holds.
  // rolled: less code for the rare way.
  template <class Pieces, bool rolled = false, int count>
  static KDA_DEVICE void add(float (&c)[count][4], const Tile& k_rows, const Tile& q_rows,
                             const Tile& k_columns) {
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int index = warp * count + i;
      if (index < Pieces::pieces) {
        const Piece piece = Pieces::piece(index);
        const auto from_a = Product::rows(piece.queries ? q_rows : k_rows, piece.row, 0);
        const auto from_b = Product::rows(k_columns, piece.column, 0);
        float sum[4] = {};  // of exact products, and what their additions lost
        float lost[4] = {};
#pragma unroll(rolled || splits == 4 ? 1 : slab / 16)
        for (int k0 = 0; k0 < slab; k0 += 16) {
          typename Product::A a;
          typename Product::B b;
          Product::load_a(a, from_a, 0, k0);
          Product::load_b(b, from_b, 0, k0);
          if constexpr (splits == 4) {
            add_exactly(sum, lost, a, b);
          } else {
            Product::multiply(c[i], a, b);
          }
        }
        if constexpr (splits == 4) {
#pragma unroll
          for (int e = 0; e < 4; ++e) c[i][e] += sum[e] + lost[e];
        }
      }
    }
  }

  // Eight channels at a time into a fresh accumulator, whose sum is then added with its error kept:
  // near-cancelling inverses (identical keys, beta near 2) magnify every bit lost here.
  static KDA_DEVICE void add_exactly(float (&sum)[4], float (&lost)[4],
                                     const typename Product::A& a, const typename Product::B& b) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float part[4] = {};
      Product::multiply8(part, a, b, half);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float total = sum[e] + part[e];
        const float taken = total - sum[e];
        lost[e] += (sum[e] - (total - taken)) + (part[e] - taken);
        sum[e] = total;
      }
    }
  }

  // Rows of a second half into k and q tiles, of a first half into the k tile.
  static KDA_DEVICE void write(const Tile& k_tile, const Tile& q_tile, const RowGroup& rows,
                               const float2 (&factor)[8], int row, int channel) {
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      k_tile.pair(row + r, channel) = Product::rounded(times(rows.k[r], factor[r]));
      q_tile.pair(row + r, channel) = Product::rounded(times(rows.q[r], factor[r]));
    }
  }

  // totals [groups, slab]: the decay over each whole row group, already visible to the block.
  template <int h, int count>
  KDA_DEVICE void level(float (&c)[count][4], const Tile& k_tile, const Tile& q_tile,
                        const RowGroup& rows, const float* totals, int group, int channel) {
    constexpr int half = h / 8;  // row groups
    const int middle = group / (2 * half) * 2 * half + half;
    const bool second = group >= middle;
    float2 factor[8];
    middle_factors<8>(factor, rows, second);
    float2 base = make_float2(1.0F, 1.0F);
    for (int i = second ? middle : group + 1; i < (second ? group : middle); ++i) {
      base = times(base, *reinterpret_cast<const float2*>(totals + i * slab + channel));
    }
#pragma unroll
    for (int r = 0; r < 8; ++r) factor[r] = times(factor[r], base);
    write(k_tile, q_tile, rows, factor, group * 8, channel);
    __syncthreads();
    add<Level<chunk, h>>(c, k_tile, q_tile, k_tile);
    __syncthreads();
  }

  template <int h>
  static KDA_DEVICE bool counts(int row, int column) {
    if constexpr (h == 0) {
      return row == column;
    } else {
      return row / (2 * h) == column / (2 * h) && row % (2 * h) >= h && column % (2 * h) < h;
    }
  }

  // One level inside the diagonal blocks: only pairs (second half, first half) of a 2h block count;
  // h = 0: only i = j.
  template <int h>
  KDA_DEVICE void halve(const Tile& k_tile, const Tile& q_tile, const RowGroup& rows, int group,
                        int channel) {
    float2 factor[8];
    if constexpr (h == 0) {
#pragma unroll
      for (int r = 0; r < 8; ++r) factor[r] = make_float2(1.0F, 1.0F);
    } else {
      middle_factors<h>(factor, rows, group % 2 == 1);
    }
    write(k_tile, q_tile, rows, factor, group * 8, channel);
    __syncthreads();
    constexpr int count = held<Diagonal<chunk>>;
    float c[count][4] = {};
    add<Diagonal<chunk>, true>(c, k_tile, q_tile, k_tile);
    const tile::Lane lane;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int column0 = (static_cast<int>(threadIdx.x) / 32 * count + i) % 2 * 8;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = lane.g + e / 2 * 8;
        const int column = column0 + 2 * lane.t + e % 2;
        if (counts<h>(row, column)) diagonal[i][e] += c[i][e];
      }
    }
    __syncthreads();
  }

  // Anchored at the middle of each 16 rows, inverse factors on the near side.
  KDA_DEVICE void leaf(const Tile& k_tile, const Tile& q_tile, const Tile& k_columns,
                       const RowGroup& rows, int group, int channel) {
    const bool second = group % 2 == 1;
    // As a row, a token after the middle decays since it and one before it needs the inverse; as a
    // column, the other way round.
    const Tile& far = second ? k_tile : k_columns;
    const Tile& near = second ? k_columns : k_tile;
    float2 factor[8];
    middle_factors<8>(factor, rows, second);
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      const int row = group * 8 + r;
      const float2 inverse = reciprocal(factor[r]);
      far.pair(row, channel) = Product::rounded(times(rows.k[r], factor[r]));
      near.pair(row, channel) = Product::rounded(times(rows.k[r], inverse));
      const float2 row_side = second ? factor[r] : inverse;
      q_tile.pair(row, channel) = Product::rounded(times(rows.q[r], row_side));
    }
    __syncthreads();
    add<Diagonal<chunk>>(diagonal, k_tile, q_tile, k_columns);
    __syncthreads();
  }

  // Every warp of the block together; the tiles are free again on return.
  KDA_DEVICE void slab_of(const Tile& k_tile, const Tile& q_tile, const Tile& k_columns,
                          const RowGroup& rows, const float* totals, int group, int channel) {
    if constexpr (chunk >= 64) level<32>(level32, k_tile, q_tile, rows, totals, group, channel);
    if constexpr (chunk >= 32) level<16>(level16, k_tile, q_tile, rows, totals, group, channel);
    const float2 total = *reinterpret_cast<const float2*>(totals + group * slab + channel);
    const bool steep = !(total.x > leaf_limit && total.y > leaf_limit);
    if (__syncthreads_or(steep)) {
      halve<8>(k_tile, q_tile, rows, group, channel);
      halve<4>(k_tile, q_tile, rows, group, channel);
      halve<2>(k_tile, q_tile, rows, group, channel);
      halve<1>(k_tile, q_tile, rows, group, channel);
      halve<0>(k_tile, q_tile, rows, group, channel);
    } else {
      leaf(k_tile, q_tile, k_columns, rows, group, channel);
    }
  }

  // round_queries: for products that take them as plain tf32.
  template <class Pieces, bool round_queries, int count>
  static KDA_DEVICE void put(const float (&c)[count][4], const Matrix& keys, const Matrix& queries,
                             const float* beta) {
    const tile::Lane lane;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int index = static_cast<int>(threadIdx.x) / 32 * count + i;
      if (index < Pieces::pieces) {
        const Piece piece = Pieces::piece(index);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = piece.row + lane.g + e / 2 * 8;
          const int column = piece.column + 2 * lane.t + e % 2;
          if (piece.queries) {
            const float x = row >= column ? c[i][e] : 0.0F;
            queries(row, column) = round_queries ? Product::rounded(x) : x;
          } else {
            keys(row, column) = row > column ? beta[row] * c[i][e] : 0.0F;
          }
        }
      }
    }
  }

  // keys becomes L = strictly lower, rows times beta; queries the lower triangle.  What lies above
  // the diagonal blocks is not written and must not be read.
  template <bool round_queries>
  KDA_DEVICE void finish(const Matrix& keys, const Matrix& queries, const float* beta) const {
    if constexpr (chunk >= 64) put<Level<chunk, 32>, round_queries>(level32, keys, queries, beta);
    if constexpr (chunk >= 32) put<Level<chunk, 16>, round_queries>(level16, keys, queries, beta);
    put<Diagonal<chunk>, round_queries>(diagonal, keys, queries, beta);
  }
};

}  // namespace kda::step
