// Ak and Aq where what is added up cancels, or has f16's bits to keep: of steps up to two, and of
// f16 rows.  M diag(beta) by forward substitution in f32 of whole halves, and M and Kr as two f16
// each, what a value rounds to and what that leaves.  Of products with them the one of what is left
// with what is left is left out.
#pragma once

#include "sm90/factors/solve.cuh"

namespace kda {

// Bytes from a place in k or Kd to that in what Kr lost, modulo 2^32.
constexpr u32 k_to_kr_rest = static_cast<u32>(abi::factors::kr_rest(shape)) - image.kd;

// What two values lose as f16.
KDA_DEVICE u32 lost_by_f16(u32 rounded, float2 x) {
  const float2 y = F16::unpack(rounded);
  return F16::pack(x.x - y.x, x.y - y.y);
}

// As multiply_tf32, of operands rounded to nearest.
KDA_DEVICE void multiply_tf32_rounded(float (&kk)[4], float (&qk)[4], float (&right)[4],
                                      const float2 (&k)[4], const float2 (&q)[4],
                                      const float2 (&with)[4]) {
  using Tf32 = tile::Operand<abi::DType::f32, 1>;
  float2 x[4], y[4], z[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[i] = Tf32::rounded(k[i]);
    y[i] = Tf32::rounded(q[i]);
    z[i] = Tf32::rounded(with[i]);
  }
  multiply_tf32(kk, qk, right, x, y, z);
}

// The same of operands in two terms.
KDA_DEVICE void multiply_tf32_exactly(float (&kk)[4], float (&qk)[4], float (&right)[4],
                                      const float2 (&k)[4], const float2 (&q)[4],
                                      const float2 (&with)[4]) {
  const auto lost = [](float2 x) {  // by cutting off
    const auto of = [](float y) { return y - __uint_as_float(__float_as_uint(y) & 0xffffe000U); };
    return make_float2(of(x.x), of(x.y));
  };
  float2 x[4], y[4], z[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[i] = lost(k[i]);
    y[i] = lost(q[i]);
    z[i] = lost(with[i]);
  }
  multiply_tf32(kk, qk, right, x, y, with);
  multiply_tf32(kk, qk, right, k, q, z);
  multiply_tf32(kk, qk, right, k, q, with);
}

// What multiply_rows_f16 leaves out of rows x, of which a is what they round to.
KDA_DEVICE void multiply_lost(float (&c)[2][4], const float2 (&x)[4], const u32 (&a)[4],
                              const u32 (&b)[4], const u32 (&b_lost)[4]) {
  u32 a_lost[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) a_lost[i] = lost_by_f16(a[i], x[i]);
  multiply_rows_f16(c, a_lost, b);
  multiply_rows_f16(c, a, b_lost);
}

// 16 x 16 operands in f16, and what that lost.
struct TwoTerms {
  u32 x[4];
  u32 lost[4];

  static KDA_DEVICE TwoTerms of(const float (&c)[2][4], float by) {
    TwoTerms two;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 y = make_float2(c[i / 2][i % 2 * 2] * by, c[i / 2][i % 2 * 2 + 1] * by);
      two.x[i] = F16::pack(y.x, y.y);
      two.lost[i] = lost_by_f16(two.x[i], y);
    }
    return two;
  }
  // From and to a lane's places in shared memory.
  static KDA_DEVICE TwoTerms of(uint4 x, uint4 lost) {
    return {{x.x, x.y, x.z, x.w}, {lost.x, lost.y, lost.z, lost.w}};
  }
  KDA_DEVICE void put(uint4& to, uint4& to_lost) const {
    to = make_uint4(x[0], x[1], x[2], x[3]);
    to_lost = make_uint4(lost[0], lost[1], lost[2], lost[3]);
  }
  // The same 16 x 16, transposed: a B operand as A, A as B.
  KDA_DEVICE TwoTerms across() const {
    return {{x[0], x[2], x[1], x[3]}, {lost[0], lost[2], lost[1], lost[3]}};
  }
};

// c += a b
KDA_DEVICE void multiply_two(float (&c)[2][4], const TwoTerms& a, const TwoTerms& b) {
  multiply_f16(c, a.lost, b.x);
  multiply_f16(c, a.x, b.lost);
  multiply_f16(c, a.x, b.x);
}

struct CarefulSolve : Solve {
  AnyGateScratch& shared;  // the base's, where any of this is used

  KDA_DEVICE explicit CarefulSolve(Scratch& scratch)
      : Solve(scratch), shared(reinterpret_cast<AnyGateScratch&>(scratch)) {}

  // q k in f16: up to 2^15 where q is made as long as one at the most.
  static constexpr float score_scale = shape.l2norm_qk ? 0x1p15F : 0x1p5F;
  static constexpr float writer_scale = abi::chunk::writer_scale(shape);

  KDA_DEVICE Inverse inverse(int half, int term) const {
    return Inverse(shared.inverse(half, term));
  }

  // M diag(beta) of both halves, times strength_scale; one warp, a lane a column.
  KDA_DEVICE void invert() const {
    const tile::Lane lane = this->lane();
    const int at = 2 * lane.t * 8 + lane.g;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 left = total_left(half, 0);
      const float2 right = total_right(half, 0);
      const float beta0 = shared.beta[half * half_tokens + lane.g];
      const float beta1 = shared.beta[half * half_tokens + lane.g + 8];
      float* first = shared.lower(3 * half) + at;
      first[0] = left.x * beta0;
      first[8] = left.y * beta0;
      float* below = shared.lower(3 * half + 1) + at;
      below[0] = left.z * beta1;
      below[8] = left.w * beta1;
      float* second = shared.lower(3 * half + 2) + at;
      second[0] = right.x * beta1;
      second[8] = right.y * beta1;
    }
    __syncwarp();
    const int half = number_in_warp() / half_tokens;
    const int column = number_in_warp() % half_tokens;
    float x[8], y[8];
    substitute(x, shared.lower(3 * half), column);  // nothing for columns of the other block
#pragma unroll
    for (int i = 0; i < 8; ++i) y[i] = i + 8 == column ? 1.0F : 0.0F;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const auto* below = reinterpret_cast<const float4*>(shared.lower(3 * half + 1) + j * 8);
      const float4 lo = below[0], hi = below[1];
      const float parts[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) y[i] -= parts[i] * x[j];
    }
    substitute(y, shared.lower(3 * half + 2));
    const float strength = shared.beta[half * half_tokens + column] * strength_scale;
#pragma unroll
    for (int i = 0; i < half_tokens; ++i) {
      const float m = strength * (i < 8 ? x[i % 8] : y[i % 8]);
      const u16 rounded = F16::from_float(m);
      inverse(half, 0)(i, column) = rounded;
      inverse(half, 1)(i, column) = F16::from_float(m - F16::to_float(rounded));
    }
    __syncwarp();
  }

  // A half's M diag(beta): as an A operand transposed, as B[n, k], or as B[k, n].
  KDA_DEVICE TwoTerms half_across(int half) const {
    TwoTerms m;
    ptx::ldmatrix_x4_trans(m.x, across(half));
    ptx::ldmatrix_x4_trans(m.lost, across(half) + to_lost);
    return m;
  }
  KDA_DEVICE TwoTerms half_rows(int half) const {
    TwoTerms m;
    ptx::ldmatrix_x4(m.x, across(half));
    ptx::ldmatrix_x4(m.lost, across(half) + to_lost);
    return m;
  }
  KDA_DEVICE TwoTerms half_along(int half) const {
    TwoTerms m;
    ptx::ldmatrix_x4_trans(m.x, along(half));
    ptx::ldmatrix_x4_trans(m.lost, along(half) + to_lost);
    return m;
  }

  // Minus k k below the halves, transposed, as a B operand.
  KDA_DEVICE TwoTerms minus_kk() const {
    constexpr float minus = -1 / key_scale;
    const float4 left = total_below(0, 0);
    const float4 right = total_below(0, 1);
    const float c[2][4] = {{left.x, left.y, left.z, left.w}, {right.x, right.y, right.z, right.w}};
    return TwoTerms::of(c, minus).across();
  }

  KDA_DEVICE TwoTerms below() const {
    const int l = number_in_warp();
    return TwoTerms::of(shared.below(0)[l], shared.below(1)[l]);
  }
  KDA_DEVICE void put_below(const TwoTerms& x) const {
    const int l = number_in_warp();
    x.put(shared.below(0)[l], shared.below(1)[l]);
  }

  // M diag(beta) below the halves, transposed, as an A operand (inverse.cuh).
  KDA_DEVICE TwoTerms invert_below() const {
    float x[2][4] = {};
    multiply_two(x, half_across(0), below());
    float y[2][4] = {};
    multiply_two(y, TwoTerms::of(x, 1.0F), half_rows(1));
    return TwoTerms::of(y, 1 / strength_scale);
  }

  // Ak and what rounding it lost, in place of Kr and what that lost; the warp's slab.
  KDA_DEVICE void write_ak(u32 buffer, const TwoTerms& below) const {
    const u32 to = buffer + image.ak;
    const u32 to_rest = buffer + static_cast<u32>(abi::factors::kr_rest(shape));
    TwoTerms kr[2][k_steps];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int ks = 0; ks < k_steps; ++ks) {
        ptx::ldmatrix_x4_trans(kr[half][ks].x, place(to, half, ks));
        ptx::ldmatrix_x4_trans(kr[half][ks].lost, place(to_rest, half, ks));
      }
    }
    const TwoTerms first = half_across(0);
    const TwoTerms second = half_across(1);
    __syncwarp();
#pragma unroll
    for (int ks = 0; ks < k_steps; ++ks) {
      float low[2][4] = {};
      float high[2][4] = {};
      multiply_two(low, first, kr[0][ks]);
      multiply_two(low, below, kr[1][ks]);
      multiply_two(high, second, kr[1][ks]);
      store_ak(place(to, 0, ks), place(to_rest, 0, ks), low);
      store_ak(place(to, 1, ks), place(to_rest, 1, ks), high);
    }
  }

  // Aq[i, m] = beta_m sum_j qk[i, j] M[j, m], a block a warp (Solve::write_aq).
  KDA_DEVICE void write_aq(u32 to, const TwoTerms& below) const {
    const int part = role();
    if (part == 0) return;
    const u32 l = static_cast<u32>(thread) % 32;
    const auto block = [&](u32 row, u32 column) {
      return to + Square::at(row + l % 16, column + l / 16 * 8);
    };
    const auto multiply = [&](float(&c)[2][4], int qk, const TwoTerms& m) {
      const uint4 q = shared.qk(qk)[l];
      const u32 a[4] = {q.x, q.y, q.z, q.w};
      if constexpr (exact_scores) {
        const uint4 rest = shared.qk(qk, 1)[l];
        const u32 a_lost[4] = {rest.x, rest.y, rest.z, rest.w};
        multiply_f16(c, a_lost, m.x);
      }
      multiply_f16(c, a, m.lost);
      multiply_f16(c, a, m.x);
    };
    float c[2][4] = {};
    multiply(c, part == 3 ? 1 : (part == 1 ? 0 : 2), half_along(part == 3 ? 1 : 0));
    if (part == 2) multiply(c, 1, below.across());
    constexpr float down = writer_scale / (score_scale * strength_scale);
    store_scaled(block(part == 1 ? 0 : 16, part == 3 ? 16 : 0), c, down);
    if (part == 1) {
      const float zero[2][4] = {};
      store_scaled(block(0, 16), zero, 1.0F);
    }
  }

  // As Solve's; how large q k may be is score_scale's.
  template <class Meanwhile, class AfterSolve>
  KDA_DEVICE void make_writers(u32 address, const ScoreSize&, const Meanwhile& meanwhile,
                               const AfterSolve& after_solve) const {
    solve(meanwhile);
    meet();
    after_solve();
    const TwoTerms below = this->below();
    write_ak(address, below);
    write_aq(address + image.aq, below);
    ptx::fence_async_proxy();
  }

 private:
  // Bytes from a half's M diag(beta) to what it lost.
  static constexpr u32 to_lost = 2 * Inverse::bytes;

  template <class Meanwhile>
  KDA_DEVICE void solve(const Meanwhile& meanwhile) const {
    const int lane = number_in_warp();
    const int role = this->role();
    if (role == 0) {
      invert();
    } else if (role == 1) {
      put_below(minus_kk());
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        shared.qk(half)[lane] = diagonal(half, score_scale);
        if constexpr (exact_scores) {
          shared.qk(half, 1)[lane] = diagonal_operand<true>(this->lane(), total_left(half, 1),
                                                            total_right(half, 1), score_scale);
        }
      }
      shared.qk(2)[lane] = qk_below(score_scale);
      if constexpr (exact_scores) {
        constexpr float one = score_scale / key_scale;
        shared.qk(2, 1)[lane] =
            lost_operand(scaled(total_below(1, 0), one), scaled(total_below(1, 1), one));
      }
    } else if (role == 3 || tune.groups > 1) {
      meanwhile();
    }
    meet();
    if (role == 0) put_below(invert_below());
  }

  static KDA_DEVICE void store_scaled(u32 address, const float (&c)[2][4], float by) {
    u32 r[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      r[i] = Element::pack(c[i / 2][i % 2 * 2] * by, c[i / 2][i % 2 * 2 + 1] * by);
    }
    ptx::stmatrix_x4(address, r);
  }
  static KDA_DEVICE void store_ak(u32 address, u32 rest, const float (&c)[2][4]) {
    constexpr float down = writer_scale / (strength_scale * key_scale);
    u32 r[4];
    u32 lost[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 x = make_float2(c[i / 2][i % 2 * 2] * down, c[i / 2][i % 2 * 2 + 1] * down);
      r[i] = Element::pack(x.x, x.y);
      const float2 y = Element::unpack(r[i]);
      lost[i] = Element::pack(x.x - y.x, x.y - y.y);
    }
    ptx::stmatrix_x4(address, r);
    if constexpr (abi::chunk::writes_twice(shape)) ptx::stmatrix_x4(rest, lost);
  }
};

}  // namespace kda
