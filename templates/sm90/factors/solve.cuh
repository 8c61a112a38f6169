// From a chunk's scores to Ak and Aq: the warps' shares are summed, M diag(beta) found by forward
// substitution, and both products with it formed.
#pragma once

#include "ptx/bulk.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "ptx/stmatrix.cuh"
#include "sm90/factors/group.cuh"

namespace kda {

struct Solve : Group {
  using Group::Group;

  // Scores within a half: columns 0-7 and 8-15.
  struct Diagonal {
    float kk[2][4];
    float qk[2][4];
  };

  static KDA_DEVICE float4 four(const float (&c)[4]) { return make_float4(c[0], c[1], c[2], c[3]); }

  // The warp's share of a half's scores.
  KDA_DEVICE void hand_in(int half, const Diagonal& sums) const {
    const int l = number_in_warp();
    LeftSums& left = shared.left(warp, half);
    left[0][l] = four(sums.kk[0]);
    left[1][l] = four(sums.qk[0]);
    RightSums& right = shared.right(warp, half);
    right[0][l] = make_float2(sums.kk[1][2], sums.kk[1][3]);
    right[1][l] = make_float2(sums.qk[1][2], sums.qk[1][3]);
  }
  // Of those below the halves.
  KDA_DEVICE void hand_in_below(const float (&kk)[2][4], const float (&qk)[2][4]) const {
    const int l = number_in_warp();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      shared.below_sums(warp, 0)[i][l] = four(kk[i]);
      shared.below_sums(warp, 1)[i][l] = four(qk[i]);
    }
  }

  static KDA_DEVICE float4 plus(float4 x, float4 y) {
    return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  }
  static KDA_DEVICE float4 minus(float4 x) { return make_float4(-x.x, -x.y, -x.z, -x.w); }
  KDA_DEVICE float4 total_left(int half, int which) const {
    const int l = number_in_warp();
    return plus(plus(shared.left(0, half)[which][l], shared.left(1, half)[which][l]),
                plus(shared.left(2, half)[which][l], shared.left(3, half)[which][l]));
  }
  KDA_DEVICE float4 total_below(int which, int i) const {
    const int l = number_in_warp();
    return plus(plus(shared.below_sums(0, which)[i][l], shared.below_sums(1, which)[i][l]),
                plus(shared.below_sums(2, which)[i][l], shared.below_sums(3, which)[i][l]));
  }
  KDA_DEVICE float2 total_right(int half, int which) const {
    const int l = number_in_warp();
    float2 x = make_float2(0.0F, 0.0F);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 y = shared.right(w, half)[which][l];
      x = make_float2(x.x + y.x, x.y + y.y);
    }
    return x;
  }
  static KDA_DEVICE uint4 operand(float4 left, float4 right) {
    return make_uint4(F16::pack(left.x, left.y), F16::pack(left.z, left.w),
                      F16::pack(right.x, right.y), F16::pack(right.z, right.w));
  }

  // The block below of q k as an f16 A operand, and of k k what invert_below() takes: minus its
  // transpose.
  KDA_DEVICE uint4 qk_below() const { return operand(total_below(1, 0), total_below(1, 1)); }
  KDA_DEVICE uint4 minus_kk_below() const {
    const uint4 x = operand(minus(total_below(0, 0)), minus(total_below(0, 1)));
    return make_uint4(x.x, x.z, x.y, x.w);
  }

  // A diagonal block of q k, lower and diagonal, as an f16 A operand.
  KDA_DEVICE uint4 diagonal_operand(int half) const {
    const tile::Lane lane = this->lane();
    float4 left = total_left(half, 1);
    const float2 low = total_right(half, 1);
    const int c = 2 * lane.t;
    if (c > lane.g) left.x = 0.0F;
    if (c + 1 > lane.g) left.y = 0.0F;
    return operand(
        left, make_float4(0.0F, 0.0F, c > lane.g ? 0.0F : low.x, c + 1 > lane.g ? 0.0F : low.y));
  }

  KDA_DEVICE Inverse inverse(int half) const { return Inverse(shared.inverse[half]); }

  // M diag(beta) of `count` halves from `first_half` on, M = (I + L)^-1, L = strictly lower beta_i
  // k_i k_j; one warp.  Forward substitution in f32 in each 8 x 8 diagonal block, a lane a column;
  // then the block below the two, (M diag(beta))21 = -(M22 diag(beta)) kk21 (M11 diag(beta)).
  template <int count>
  KDA_DEVICE void invert(int first_half) const {
    const tile::Lane lane = this->lane();
    const int l = number_in_warp();
    u32 kk_lower[count];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int half = first_half + i;
      const float4 left = total_left(half, 0);
      const float2 right = total_right(half, 0);
      const float beta0 = shared.beta[half * half_tokens + lane.g];
      const float beta1 = shared.beta[half * half_tokens + lane.g + 8];
      const int at = 2 * lane.t * 8 + lane.g;
      float* first = shared.lower(2 * half) + at;
      first[0] = left.x * beta0;
      first[8] = left.y * beta0;
      float* second = shared.lower(2 * half + 1) + at;
      second[0] = right.x * beta1;
      second[8] = right.y * beta1;
      kk_lower[i] = F16::pack(left.z, left.w);
    }
    __syncwarp();
    const int block = 2 * first_half + l / 8 % (2 * count);
    const int column = l % 8;
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = i == column ? 1.0F : 0.0F;
#pragma unroll
    for (int j = 0; j < 7; ++j) {  // x[j] is final: take it out of the rows below
#pragma unroll
      for (int at = (j + 1) / 4 * 4; at < 8; at += 4) {
        const float4 f = *reinterpret_cast<const float4*>(shared.lower(block) + j * 8 + at);
        const float parts[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (at + e > j) x[at + e] -= parts[e] * x[j];
        }
      }
    }
    const int first = block % 2 * 8;
    const float beta = shared.beta[block * 8 + column];
    if (l < 16 * count) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        inverse(block / 2)(first + i, first + column) = F16::from_float(x[i] * beta);
      }
    }
    if (l < 8 * count) {
      *reinterpret_cast<uint4*>(&inverse(first_half + l / 8)(l % 8, 8)) = make_uint4(0, 0, 0, 0);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const Inverse m = inverse(first_half + i);
      const auto at = [&](int row, int col) -> u32& {
        return m.pair(row + lane.g, col + 2 * lane.t);
      };
      float c[4] = {};
      ptx::mma_m16n8k8_f16(c, ptx::movmatrix_trans(at(0, 0)), 0, kk_lower[i]);
      float d[4] = {};
      ptx::mma_m16n8k8_f16(d, F16::pack(c[0], c[1]), 0, at(8, 8));
      at(8, 0) = ptx::movmatrix_trans(F16::pack(-d[0], -d[1]));
    }
    __syncwarp();
  }

  // Address of this lane's row of a half's inverse: across() for its transpose as an A operand (or
  // itself as B[n, k]), along() for itself as B[k, n].
  KDA_DEVICE u32 across(int half) const {
    const u32 l = static_cast<u32>(thread) % 32;
    return inverse(half).address(l / 16 * 8 + l % 8, l / 8 % 2 * 8);
  }
  KDA_DEVICE u32 along(int half) const {
    const u32 l = static_cast<u32>(thread) % 32;
    return inverse(half).address(l % 16, l / 16 * 8);
  }

  static KDA_DEVICE void multiply(float (&c)[2][4], const u32 (&a)[4], const u32 (&b)[4]) {
    const u32 b0[2] = {b[0], b[2]};
    const u32 b1[2] = {b[1], b[3]};
    ptx::mma_m16n8k16_bf16(c[0], a, b0);
    ptx::mma_m16n8k16_bf16(c[1], a, b1);
  }
  static KDA_DEVICE void multiply_f16(float (&c)[2][4], const u32* a, const u32* b) {
    ptx::mma_m16n8k16_f16(c[0], a, b);
    ptx::mma_m16n8k16_f16(c[1], a, b + 2);
  }

  // Whether each warp finds the block below for itself: where few groups wait for each other, a
  // meeting costs more than what all do once more.
  static constexpr bool each_inverts = tune.beside != 0;

  // The block below the halves, (M diag(beta))21 = -(M22 diag(beta)) kk21 (M11 diag(beta)),
  // transposed, as an f16 A operand.
  KDA_DEVICE uint4 invert_below() const {
    u32 first[4];
    u32 second[4];
    ptx::ldmatrix_x4_trans(first, across(0));
    ptx::ldmatrix_x4(second, across(1));
    const uint4 kk = shared.below[number_in_warp()];
    const u32 minus_kk[4] = {kk.x, kk.y, kk.z, kk.w};
    float x[2][4] = {};
    multiply_f16(x, first, minus_kk);
    const u32 a[4] = {F16::pack(x[0][0], x[0][1]), F16::pack(x[0][2], x[0][3]),
                      F16::pack(x[1][0], x[1][1]), F16::pack(x[1][2], x[1][3])};
    float y[2][4] = {};
    multiply_f16(y, a, second);
    return make_uint4(F16::pack(y[0][0], y[0][1]), F16::pack(y[0][2], y[0][3]),
                      F16::pack(y[1][0], y[1][1]), F16::pack(y[1][2], y[1][3]));
  }

  KDA_DEVICE uint4 inverse_below() const {
    if constexpr (each_inverts) {
      return invert_below();
    } else {
      return shared.below[number_in_warp()];
    }
  }

  static KDA_DEVICE void store_rounded(u32 address, const float (&c)[2][4]) {
    const u32 r[4] = {Bf16::pack(c[0][0], c[0][1]), Bf16::pack(c[0][2], c[0][3]),
                      Bf16::pack(c[1][0], c[1][1]), Bf16::pack(c[1][2], c[1][3])};
    ptx::stmatrix_x4(address, r);
  }

  // From the first half's end to the chunk's.
  KDA_DEVICE void to_end(float (&c)[2][4], int ks) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int channel = warp * slab + ks * 16 + i * 8 + 2 * lane().t;
      const float2 d = *reinterpret_cast<const float2*>(&shared.whole[1][channel]);
      c[i][0] *= d.x;
      c[i][1] *= d.y;
      c[i][2] *= d.x;
      c[i][3] *= d.y;
    }
  }

  // Ak[m, channel] = beta_m sum_i M[i, m] Kr[i, channel], in place of Kr, the warp's slab.  Kr of
  // the first half goes to the chunk's end, or by slabs to the half's.
  KDA_DEVICE void write_ak(u32 image, uint4 packed) const {
    u32 kr[2][k_steps][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int ks = 0; ks < k_steps; ++ks) {
        ptx::ldmatrix_x4_trans(kr[half][ks], place(image, half, ks));
      }
    }
    u32 first[4];
    u32 second[4];
    ptx::ldmatrix_x4_trans(first, across(0));
    ptx::ldmatrix_x4_trans(second, across(1));
    const u32 below[4] = {packed.x, packed.y, packed.z, packed.w};
    __syncwarp();
#pragma unroll
    for (int ks = 0; ks < k_steps; ++ks) {
      float low[2][4] = {};
      float high[2][4] = {};
      multiply_f16(low, first, kr[0][ks]);
      if constexpr (tune.slabs != 0) to_end(low, ks);
      multiply_f16(low, below, kr[1][ks]);
      multiply_f16(high, second, kr[1][ks]);
      store_rounded(place(image, 0, ks), low);
      store_rounded(place(image, 1, ks), high);
    }
  }

  // Aq[i, m] = beta_m sum_j qk[i, j] M[j, m], a block a warp.
  KDA_DEVICE void write_aq(u32 image, uint4 m) const {
    const int part = role();
    if (part == 0) return;
    const u32 l = static_cast<u32>(thread) % 32;
    const auto block = [&](u32 row, u32 column) {
      return image + Square::at(row + l % 16, column + l / 16 * 8);
    };
    const uint4 q = shared.qk[part == 3 ? 1 : (part == 1 ? 0 : 2)][l];
    const u32 a[4] = {q.x, q.y, q.z, q.w};
    u32 b[4];
    ptx::ldmatrix_x4_trans(b, along(part == 3 ? 1 : 0));
    float c[2][4] = {};
    multiply_f16(c, a, b);
    if (part == 2) {
      const uint4 q2 = shared.qk[1][l];
      const u32 a2[4] = {q2.x, q2.y, q2.z, q2.w};
      const u32 b2[4] = {m.x, m.z, m.y, m.w};
      multiply_f16(c, a2, b2);
    }
    store_rounded(block(part == 1 ? 0 : 16, part == 3 ? 16 : 0), c);
    if (part == 1) {
      const float zero[2][4] = {};
      store_rounded(block(0, 16), zero);
    }
  }

  // Between two meetings of the group; a warp or two have something else to do.
  template <class Meanwhile>
  KDA_DEVICE void solve(const Meanwhile& meanwhile) const {
    const int lane = number_in_warp();
    const int role = this->role();
    if (role == 0 || (role == 3 && each_inverts)) {
      invert<each_inverts ? 1 : 2>(role == 0 ? 0 : 1);
    } else if (role == 1) {
      shared.below[lane] = minus_kk_below();
      shared.qk[0][lane] = diagonal_operand(0);
      shared.qk[1][lane] = diagonal_operand(1);
      shared.qk[2][lane] = qk_below();
    } else if (role == 3 || tune.groups > 1) {
      meanwhile();
    }
    if constexpr (!each_inverts) {
      meet();
      if (role == 0) shared.below[lane] = invert_below();
    }
  }

  // Of a chunk whose rows are made: Ak in place of Kr, and Aq, once the group has met.  `meanwhile`
  // is done by warps that have nothing to solve (of roles 2 and 3, of a block's only group 3, where
  // a warp inverts each half 2), after_solve by all, once those are through with it.
  template <class Meanwhile, class AfterSolve>
  KDA_DEVICE void make_writers(u32 address, const Meanwhile& meanwhile,
                               const AfterSolve& after_solve) const {
    solve(meanwhile);
    meet();
    after_solve();
    const uint4 below = inverse_below();
    write_ak(address + image.ak, below);
    write_aq(address + image.aq, below);
    ptx::fence_async_proxy();
  }
};

}  // namespace kda
