// From a chunk's scores to Ak and Aq: the warps' shares are summed, M diag(beta) found by forward
// substitution, and both products with it formed.
#pragma once

#include "ptx/shared_words.cuh"
#include "sm90/teams/rows.cuh"

namespace kda::teams {

struct Solve : Rows {
  // beta of the chunk's tokens stands behind the team's memory of the line
  // (fused/make_by_team.cuh).
  const float* beta;

  KDA_DEVICE Solve(char* shared, int thread, const float* betas)
      : Rows(shared, thread), beta(betas) {}

  // f16 A operands: q k of the first half, the second, and the block below.
  using Queries = uint4[3];

  // Of a chunk whose rows are made, as have_rows() says once they may be read: Ak in place of Kr,
  // and Aq.  One warp solves; the other one does something else meanwhile; then both after_solve,
  // when raw rows of the first half may come.
  template <class HaveRows, class Meanwhile, class AfterSolve>
  KDA_DEVICE void make_writers(const Scores& scores, float scale, const HaveRows& have_rows,
                               const Meanwhile& meanwhile, const AfterSolve& after_solve) const {
    if (warp == 0) {
      send(
          scratch().shares.qk, scores.qk_below, [&](int half) { return scores.qk_left(half); },
          [&](int half) { return scores.qk_right(half); });
    } else {
      send(
          scratch().shares.kk, scores.kk_below, [&](int half) { return scores.kk_left(half); },
          [&](int half) { return scores.kk_right(half); });
    }
    ptx::fence_async_proxy();
    have_rows();
    meet();
    Queries q;
    uint4 lower;
    if (warp == 0) {
      const uint4 minus_kk = minus_transposed(scores);  // before invert() takes its place
      invert(scores);
      lower = invert_below(across(0), across(1), minus_kk);
      below() = lower;
    } else {
      take(q, scores, ScoreSize::of_scaled(scale).up);
      meanwhile();
    }
    meet();
    after_solve();
    if (warp == 1) lower = below();
    write_ak(lower);
    if (warp == 1) write_aq(q, lower, ScoreSize::of_scaled(scale).down);
    ptx::fence_async_proxy();
  }

  // What Aq has above its diagonal block, once for all chunks.
  KDA_DEVICE void clear_aq() const {
    const u32 to = address() + image.aq + Square::at(own % 16, 16 + own / 16 * 8);
    ptx::st_shared_u32x4(to, make_uint4(0, 0, 0, 0));
  }

 private:
  // What one warp tells the other of the inverse, where that will write Aq's lower blocks.
  KDA_DEVICE uint4& below() const {
    return reinterpret_cast<uint4*>(memory + image.aq + half_tokens * Square::row_bytes)[own];
  }

  static KDA_DEVICE float4 four(const float (&c)[4]) { return make_float4(c[0], c[1], c[2], c[3]); }

  template <class Left, class Right>
  KDA_DEVICE void send(Share& to, const Scores::Tiles& below, const Left& left,
                       const Right& right) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      to.left[half][own] = left(half);
      to.right[half][own] = right(half);
      to.below[half][own] = four(below[half]);
    }
  }

  // The warp's own share and the other's.
  static KDA_DEVICE float4 plus(float4 x, float4 y) {
    return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  }
  static KDA_DEVICE float2 plus(float2 x, float2 y) { return make_float2(x.x + y.x, x.y + y.y); }

  // q k, lower and diagonal, times `up`.
  KDA_DEVICE void take(Queries& q, const Scores& scores, float up) const {
    const Share& other = scratch().shares.qk;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      q[half] = diagonal_operand(lane(), plus(scores.qk_left(half), other.left[half][own]),
                                 plus(scores.qk_right(half), other.right[half][own]), up);
    }
    const float one = up * (1 / key_scale);
    q[2] = operand(scaled(plus(four(scores.qk_below[0]), other.below[0][own]), one),
                   scaled(plus(four(scores.qk_below[1]), other.below[1][own]), one));
  }

  // What invert_below() takes of k k: minus the transpose of the block below.
  KDA_DEVICE uint4 minus_transposed(const Scores& scores) const {
    const Share& other = scratch().shares.kk;
    const float4 x = plus(four(scores.kk_below[0]), other.below[0][own]);
    const float4 y = plus(four(scores.kk_below[1]), other.below[1][own]);
    constexpr float minus = -1 / key_scale;
    const uint4 m = operand(scaled(x, minus), scaled(y, minus));
    return make_uint4(m.x, m.z, m.y, m.w);
  }

  KDA_DEVICE Inverse inverse(int half) const { return Inverse(scratch().inverse[half]); }

  // M diag(beta), times strength_scale, of both halves; one warp, a lane a column.
  KDA_DEVICE void invert(const Scores& scores) const {
    const tile::Lane lane = this->lane();
    const Share& other = scratch().shares.kk;
    float4 left[2];
    float2 right[2];
    float beta0[2], beta1[2];  // before anything is written, or each load would wait for that
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      beta0[half] = whole_tf32 * beta[half * half_tokens + lane.g];
      beta1[half] = whole_tf32 * beta[half * half_tokens + lane.g + 8];
      left[half] = plus(scores.kk_left(half), other.left[half][own]);
      right[half] = plus(scores.kk_right(half), other.right[half][own]);
    }
    __syncwarp();  // all have the other's share, in place of which the blocks come
    u32 kk_lower[2];
    const int at = 2 * lane.t * 8 + lane.g;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* first = scratch().shares.lowers[2 * half] + at;
      first[0] = left[half].x * beta0[half];
      first[8] = left[half].y * beta0[half];
      float* second = scratch().shares.lowers[2 * half + 1] + at;
      second[0] = right[half].x * beta1[half];
      second[8] = right[half].y * beta1[half];
      kk_lower[half] = F16::pack(whole_tf32 * left[half].z, whole_tf32 * left[half].w);
    }
    __syncwarp();
    const u32 block = own / 8;
    const u32 column = own % 8;
    const float strength = beta[own] * strength_scale;
    float x[8];
    substitute(x, scratch().shares.lowers[block], static_cast<int>(column));
    const Inverse own_half = inverse(static_cast<int>(block / 2));
    const u32 first = block % 2 * 8;
    // Of eight rows the last four have their units exchanged.
    const u32 to = own_half.address(first, first + column);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      ptx::st_shared_u16((i < 4 ? to : to ^ 16) + i * Inverse::row_bytes,
                         F16::from_float(x[i] * strength));
    }
    if (own < 16) {
      *reinterpret_cast<uint4*>(&inverse(static_cast<int>(own / 8))(own % 8, 8)) =
          make_uint4(0, 0, 0, 0);
    }
    __syncwarp();
    invert_lowers(lane, kk_lower);
    __syncwarp();
  }

  // As invert_lower(), both halves' side by side, that neither waits for the other's.
  KDA_DEVICE void invert_lowers(const tile::Lane& lane, const u32 (&kk)[2]) const {
    const tile::Place<Inverse> at = inverse(0).place(lane.g, 2 * lane.t);
    u32 first[2], second[2];
    float c[2][4] = {};
    float d[2][4] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      first[i] = ptx::ld_shared_u32(at.at(0, 0) + i * Inverse::bytes);
      second[i] = ptx::ld_shared_u32(at.at(8, 8) + i * Inverse::bytes);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) first[i] = ptx::movmatrix_trans(first[i]);
#pragma unroll
    for (int i = 0; i < 2; ++i) ptx::mma_m16n8k8_f16(c[i], first[i], 0, kk[i]);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      ptx::mma_m16n8k8_f16(d[i], F16::pack(c[i][0], c[i][1]), 0, second[i]);
    }
    constexpr float minus = -1 / strength_scale;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      ptx::st_shared_u32(at.at(8, 0) + i * Inverse::bytes,
                         ptx::movmatrix_trans(F16::pack(minus * d[i][0], minus * d[i][1])));
    }
  }

  // Address of this lane's row of a half's inverse: across() for its transpose as an A operand (or
  // itself as B[n, k]), along() for itself as B[k, n].
  KDA_DEVICE u32 across(int half) const {
    return inverse(half).address(own / 16 * 8 + own % 8, own / 8 % 2 * 8);
  }
  KDA_DEVICE u32 along(int half) const { return inverse(half).address(own % 16, own / 16 * 8); }

  // Ak[m, channel] = beta_m sum_i M[i, m] Kr[i, channel], in place of Kr, the warp's channels.  Kr
  // of the first half goes to the half's end.
  KDA_DEVICE void write_ak(uint4 packed) const {
    const u32 at = address() + image.ak + row_in<Factor>();
    const u32 further = half_tokens * Factor::row_bytes;
    u32 first[4];
    u32 second[4];
    ptx::ldmatrix_x4_trans(first, across(0));
    ptx::ldmatrix_x4_trans(second, across(1));
    const u32 lower[4] = {packed.x, packed.y, packed.z, packed.w};
    u32 kr[2][steps][4];
    float low[steps][2][4] = {};
    float high[steps][2][4] = {};
#pragma unroll
    for (int ks = 0; ks < steps; ++ks) {
      ptx::ldmatrix_x4_trans(kr[0][ks], at ^ ks * 32);
      ptx::ldmatrix_x4_trans(kr[1][ks], (at ^ ks * 32) + further);
    }
#pragma unroll
    for (int ks = 0; ks < steps; ++ks) multiply_f16(low[ks], first, kr[0][ks]);
#pragma unroll
    for (int ks = 0; ks < steps; ++ks) {
      decay_columns(low[ks], &scratch().whole[warp * wide + ks * 16 + 2 * lane().t]);
      multiply_f16(high[ks], second, kr[1][ks]);
    }
#pragma unroll
    for (int ks = 0; ks < steps; ++ks) {
      multiply_f16(low[ks], lower, kr[1][ks]);
      store_ak((at ^ ks * 32) + further, high[ks]);
    }
#pragma unroll
    for (int ks = 0; ks < steps; ++ks) {
      store_ak(at ^ ks * 32, low[ks]);
    }
  }

  // Aq[i, m] = beta_m sum_j qk[i, j] M[j, m]; one warp.
  KDA_DEVICE void write_aq(const Queries& q, uint4 m, u32 down) const {
    const tile::Place<Square> block{address() + image.aq + Square::at(own % 16, own / 16 * 8)};
    u32 first[4];
    u32 second[4];
    ptx::ldmatrix_x4_trans(first, along(0));
    ptx::ldmatrix_x4_trans(second, along(1));
    const u32 lower[4] = {m.x, m.z, m.y, m.w};
    const u32 a[3][4] = {{q[0].x, q[0].y, q[0].z, q[0].w},
                         {q[1].x, q[1].y, q[1].z, q[1].w},
                         {q[2].x, q[2].y, q[2].z, q[2].w}};
    float upper_block[2][4] = {};
    float lower_block[2][4] = {};
    float diagonal[2][4] = {};
    multiply_f16(upper_block, a[0], first);
    multiply_f16(lower_block, a[2], first);
    multiply_f16(diagonal, a[1], second);
    multiply_f16(lower_block, a[1], lower);
    store_rounded(block.at(0, 0), upper_block, down);
    store_rounded(block.at(16, 16), diagonal, down);
    store_rounded(block.at(16, 0), lower_block, down);
  }
};

}  // namespace kda::teams
