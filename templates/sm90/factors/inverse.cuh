// M diag(beta) of a chunk, M = (I + L)^-1, L = strictly lower beta_i k_i k_j, step by step: forward
// substitution in f32 in each 8 x 8 diagonal block, then the blocks below; and the products that
// this and Ak and Aq are made of.  All of M diag(beta) comes times strength_scale.
#pragma once

#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "ptx/mul_bf16x2.cuh"
#include "ptx/stmatrix.cuh"
#include "sm90/factors/sizes.cuh"
#include "tile/operand.cuh"

namespace kda {

// M diag(beta) of half the tokens, times strength_scale.
using Inverse = tile::Shared<abi::DType::f16, half_tokens, half_tokens>;

constexpr int lower_block = 72;  // floats of a diagonal 8 x 8 block, so that blocks meet all banks

// Of 16 rows of k and of q with 16 of k, what lies on the diagonal and below: columns 0-7, and rows
// 8-15 of columns 8-15, those of q and then those of k.  Rows in f32 as lanes hold them, a pair of
// channels of a row an element, read as tf32.
KDA_DEVICE void multiply_tf32(float (&kk)[4], float (&qk)[4], float (&right)[4],
                              const float2 (&k)[4], const float2 (&q)[4], const float2 (&with)[4]) {
  const auto u = [](float x) { return __float_as_uint(x); };
#pragma unroll
  for (int i = 0; i < 4; i += 2) {  // eight channels
    const u32 k_rows[4] = {u(k[i].x), u(k[i + 1].x), u(k[i].y), u(k[i + 1].y)};
    const u32 q_rows[4] = {u(q[i].x), u(q[i + 1].x), u(q[i].y), u(q[i + 1].y)};
    const u32 later[4] = {q_rows[1], k_rows[1], q_rows[3], k_rows[3]};
    const u32 first[2] = {u(with[i].x), u(with[i].y)};
    const u32 second[2] = {u(with[i + 1].x), u(with[i + 1].y)};
    ptx::mma_m16n8k8_tf32(kk, k_rows, first);
    ptx::mma_m16n8k8_tf32(qk, q_rows, first);
    ptx::mma_m16n8k8_tf32(right, later, second);
  }
}

// c += a b^T of rows in f16, 16 x 16 each, c as two tiles of 8 columns.
KDA_DEVICE void multiply_rows_f16(float (&c)[2][4], const u32 (&a)[4], const u32 (&b)[4]) {
  const u32 b0[2] = {b[0], b[2]};
  const u32 b1[2] = {b[1], b[3]};
  ptx::mma_m16n8k16_f16(c[0], a, b0);
  ptx::mma_m16n8k16_f16(c[1], a, b1);
}
// c += a b of the same.
KDA_DEVICE void multiply_f16(float (&c)[2][4], const u32* a, const u32* b) {
  ptx::mma_m16n8k16_f16(c[0], a, b);
  ptx::mma_m16n8k16_f16(c[1], a, b + 2);
}

KDA_DEVICE void store_rounded(u32 address, const float (&c)[2][4]) {
  const u32 r[4] = {Bf16::pack(c[0][0], c[0][1]), Bf16::pack(c[0][2], c[0][3]),
                    Bf16::pack(c[1][0], c[1][1]), Bf16::pack(c[1][2], c[1][3])};
  ptx::stmatrix_x4(address, r);
}
// The same times a power of two, as two bf16; rounded first, as half as many products do then.
KDA_DEVICE void store_rounded(u32 address, const float (&c)[2][4], u32 power) {
  u32 r[4] = {Bf16::pack(c[0][0], c[0][1]), Bf16::pack(c[0][2], c[0][3]),
              Bf16::pack(c[1][0], c[1][1]), Bf16::pack(c[1][2], c[1][3])};
#pragma unroll
  for (int i = 0; i < 4; ++i) r[i] = ptx::mul_bf16x2(r[i], power);
  ptx::stmatrix_x4(address, r);
}
// Of Ak, which comes times strength_scale and key_scale.
KDA_DEVICE void store_ak(u32 address, const float (&c)[2][4]) {
  constexpr u32 power = (127 - strength_bits - key_bits) << 7;
  store_rounded(address, c, power | power << 16);
}

// Two tiles of 8 columns as an f16 A operand.
KDA_DEVICE uint4 operand(float4 left, float4 right) {
  return make_uint4(F16::pack(left.x, left.y), F16::pack(left.z, left.w),
                    F16::pack(right.x, right.y), F16::pack(right.z, right.w));
}
KDA_DEVICE float4 scaled(float4 x, float y) {
  return make_float4(x.x * y, x.y * y, x.z * y, x.w * y);
}

// What it loses.
KDA_DEVICE uint4 lost_operand(float4 left, float4 right) {
  const auto lost = [](float x) { return x - F16::to_float(F16::from_float(x)); };
  const auto four = [&](float4 x) {
    return make_float4(lost(x.x), lost(x.y), lost(x.z), lost(x.w));
  };
  return operand(four(left), four(right));
}

// Of the diagonal block of q k of a half, lower and diagonal, times `up`; or what that loses.
template <bool lost = false>
KDA_DEVICE uint4 diagonal_operand(const tile::Lane& lane, float4 left, float2 right, float up) {
  left = scaled(left, up);
  right = make_float2(right.x * up, right.y * up);
  const int c = 2 * lane.t;
  if (c > lane.g) left.x = 0.0F;
  if (c + 1 > lane.g) left.y = 0.0F;
  const float4 rest =
      make_float4(0.0F, 0.0F, c > lane.g ? 0.0F : right.x, c + 1 > lane.g ? 0.0F : right.y);
  return lost ? lost_operand(left, rest) : operand(left, rest);
}

// (I + L)^-1 x, of an 8 x 8 block, of which lower has [column * 8 + row].
KDA_DEVICE void substitute(float (&x)[8], const float* lower) {
#pragma unroll
  for (int j = 0; j < 7; ++j) {  // x[j] is final: take it out of the rows below
#pragma unroll
    for (int at = (j + 1) / 4 * 4; at < 8; at += 4) {
      const float4 f = *reinterpret_cast<const float4*>(lower + j * 8 + at);
      const float parts[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (at + e > j) x[at + e] -= parts[e] * x[j];
      }
    }
  }
}
// A column of the inverse.
KDA_DEVICE void substitute(float (&x)[8], const float* lower, int column) {
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = i == column ? 1.0F : 0.0F;
  substitute(x, lower);
}

// The lower left 8 x 8 of a half's, given the diagonal ones and k k there as an operand.
KDA_DEVICE void invert_lower(const Inverse& m, const tile::Lane& lane, u32 kk) {
  const auto at = [&](int row, int col) -> u32& { return m.pair(row + lane.g, col + 2 * lane.t); };
  float c[4] = {};
  ptx::mma_m16n8k8_f16(c, ptx::movmatrix_trans(at(0, 0)), 0, kk);
  float d[4] = {};
  ptx::mma_m16n8k8_f16(d, F16::pack(c[0], c[1]), 0, at(8, 8));
  constexpr float minus = -1 / strength_scale;
  at(8, 0) = ptx::movmatrix_trans(F16::pack(minus * d[0], minus * d[1]));
}

// The block below the halves, (M diag(beta))21 = -(M22 diag(beta)) kk21 (M11 diag(beta)),
// transposed, as an f16 A operand; kk is minus the transpose of kk21.  first, second: this lane's
// row of the halves' inverses, as ldmatrix wants them for transposed A operands.
KDA_DEVICE uint4 invert_below(u32 first, u32 second, uint4 kk) {
  u32 m11[4];
  u32 m22[4];
  ptx::ldmatrix_x4_trans(m11, first);
  ptx::ldmatrix_x4(m22, second);
  const u32 minus_kk[4] = {kk.x, kk.y, kk.z, kk.w};
  float x[2][4] = {};
  multiply_f16(x, m11, minus_kk);
  const u32 a[4] = {F16::pack(x[0][0], x[0][1]), F16::pack(x[0][2], x[0][3]),
                    F16::pack(x[1][0], x[1][1]), F16::pack(x[1][2], x[1][3])};
  float y[2][4] = {};
  multiply_f16(y, a, m22);
  constexpr float one = 1 / strength_scale;
  return make_uint4(
      F16::pack(one * y[0][0], one * y[0][1]), F16::pack(one * y[0][2], one * y[0][3]),
      F16::pack(one * y[1][0], one * y[1][1]), F16::pack(one * y[1][2], one * y[1][3]));
}

// From the first half's end to the chunk's: decay over the second of this lane's channels.
KDA_DEVICE void decay_columns(float (&c)[2][4], const float* decay) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 d = *reinterpret_cast<const float2*>(decay + i * 8);
    c[i][0] *= d.x;
    c[i][1] *= d.y;
    c[i][2] *= d.x;
    c[i][3] *= d.y;
  }
}

}  // namespace kda
