// From a chunk's scores to Ak and Aq: the warps' shares are summed, M diag(beta) found by forward
// substitution, and both products with it formed.
#pragma once

#include "sm90/factors/pairs.cuh"

namespace kda {

struct Solve : Pairs {
  using Pairs::Pairs;

  // Solving --------------------------------------------------------------------------------------

  static KDA_DEVICE float4 plus(float4 x, float4 y) {
    return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  }
  KDA_DEVICE float4 total_left(int half, int which) const {
    const int l = thread % 32;
    return plus(plus(shared.slices[0][half].left[which][l], shared.slices[1][half].left[which][l]),
                plus(shared.slices[2][half].left[which][l], shared.slices[3][half].left[which][l]));
  }
  KDA_DEVICE float4 total_below(int which, int i) const {
    const int l = thread % 32;
    return plus(plus(shared.slices[0][which].below[i][l], shared.slices[1][which].below[i][l]),
                plus(shared.slices[2][which].below[i][l], shared.slices[3][which].below[i][l]));
  }
  KDA_DEVICE float2 total_right(int half, int which) const {
    const int l = thread % 32;
    float2 x = make_float2(0.0F, 0.0F);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 y = shared.slices[w][half].right[which][l];
      x = make_float2(x.x + y.x, x.y + y.y);
    }
    return x;
  }
  static KDA_DEVICE uint4 operand(float4 left, float4 right) {
    return make_uint4(F16::pack(left.x, left.y), F16::pack(left.z, left.w),
                      F16::pack(right.x, right.y), F16::pack(right.z, right.w));
  }

  // The block below of k k (0) or q k (1) as an f16 A operand.
  KDA_DEVICE uint4 below_operand(int which) const {
    return operand(total_below(which, 0), total_below(which, 1));
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

  // M diag(beta) of both halves, M = (I + L)^-1, L = strictly lower beta_i k_i k_j; warp 0. Forward
  // substitution in f32 in each 8 x 8 diagonal block, a lane a column; then the block below the
  // two, (M diag(beta))21 = -(M22 diag(beta)) kk21 (M11 diag(beta)).
  KDA_DEVICE void invert() const {
    const tile::Lane lane = this->lane();
    const int l = thread % 32;
    u32 kk_lower[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 left = total_left(half, 0);
      const float2 right = total_right(half, 0);
      const float beta0 = shared.beta[half * half_tokens + lane.g];
      const float beta1 = shared.beta[half * half_tokens + lane.g + 8];
      float* to = &shared.lower[2 * half][2 * lane.t * 8 + lane.g];
      to[0] = left.x * beta0;
      to[8] = left.y * beta0;
      to[72] = right.x * beta1;
      to[80] = right.y * beta1;
      kk_lower[half] = F16::pack(left.z, left.w);
    }
    __syncwarp();
    const int block = l / 8;
    const int column = l % 8;
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = i == column ? 1.0F : 0.0F;
#pragma unroll
    for (int j = 0; j < 7; ++j) {  // x[j] is final: take it out of the rows below
#pragma unroll
      for (int at = (j + 1) / 4 * 4; at < 8; at += 4) {
        const float4 f = *reinterpret_cast<const float4*>(&shared.lower[block][j * 8 + at]);
        const float parts[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (at + e > j) x[at + e] -= parts[e] * x[j];
        }
      }
    }
    const int first = block % 2 * 8;
    const float beta = shared.beta[block * 8 + column];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      shared.inverse[block / 2][first + i][first + column] = F16::from_float(x[i] * beta);
    }
    if (l < 16) {
      *reinterpret_cast<uint4*>(&shared.inverse[l / 8][l % 8][8]) = make_uint4(0, 0, 0, 0);
    }
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      auto& m = shared.inverse[half];
      const auto at = [&](int row, int col) -> u32& {
        return *reinterpret_cast<u32*>(&m[row + lane.g][col + 2 * lane.t]);
      };
      float c[4] = {};
      ptx::mma_m16n8k8_f16(c, ptx::movmatrix_trans(at(0, 0)), 0, kk_lower[half]);
      float d[4] = {};
      ptx::mma_m16n8k8_f16(d, F16::pack(c[0], c[1]), 0, at(8, 8));
      at(8, 0) = ptx::movmatrix_trans(F16::pack(-d[0], -d[1]));
    }
    __syncwarp();
  }

  // Address of this lane's row of a half's inverse: across() for its transpose as an A operand (or
  // itself as B[n, k]), along() for itself as B[k, n].
  KDA_DEVICE u32 across(int half) const {
    const int l = thread % 32;
    return ptx::shared_address(&shared.inverse[half][l / 16 * 8 + l % 8][l / 8 % 2 * 8]);
  }
  KDA_DEVICE u32 along(int half) const {
    const int l = thread % 32;
    return ptx::shared_address(&shared.inverse[half][l % 16][l / 16 * 8]);
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
    const uint4 kk = shared.kk_below[thread % 32];
    const u32 kk_transposed[4] = {kk.x, kk.z, kk.y, kk.w};
    float x[2][4] = {};
    multiply_f16(x, first, kk_transposed);
    const u32 a[4] = {F16::pack(x[0][0], x[0][1]), F16::pack(x[0][2], x[0][3]),
                      F16::pack(x[1][0], x[1][1]), F16::pack(x[1][2], x[1][3])};
    float y[2][4] = {};
    multiply_f16(y, a, second);
    return make_uint4(F16::pack(-y[0][0], -y[0][1]), F16::pack(-y[0][2], -y[0][3]),
                      F16::pack(-y[1][0], -y[1][1]), F16::pack(-y[1][2], -y[1][3]));
  }

  KDA_DEVICE uint4 inverse_below() const {
    if constexpr (each_inverts) {
      return invert_below();
    } else {
      return shared.inverse_below[thread % 32];
    }
  }

  static KDA_DEVICE void put(u32 address, const float (&c)[2][4]) {
    const u32 r[4] = {Bf16::pack(c[0][0], c[0][1]), Bf16::pack(c[0][2], c[0][3]),
                      Bf16::pack(c[1][0], c[1][1]), Bf16::pack(c[1][2], c[1][3])};
    ptx::stmatrix_x4(address, r);
  }

  // Ak[m, channel] = beta_m sum_i M[i, m] Kr[i, channel], in place of Kr, the warp's slab.
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
      multiply_f16(low, below, kr[1][ks]);
      multiply_f16(high, second, kr[1][ks]);
      put(place(image, 0, ks), low);
      put(place(image, 1, ks), high);
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
    put(block(part == 1 ? 0 : 16, part == 3 ? 16 : 0), c);
    if (part == 1) {
      const float zero[2][4] = {};
      put(block(0, 16), zero);
    }
  }

  // Between two meetings of the group; two of the warps may have something else to do.
  template <class Meanwhile>
  KDA_DEVICE void solve(const Meanwhile& meanwhile) const {
    const int lane = thread % 32;
    if (role() == 0) {
      invert();
    } else if (role() == 1) {
      shared.kk_below[lane] = below_operand(0);
      shared.qk[0][lane] = diagonal_operand(0);
      shared.qk[1][lane] = diagonal_operand(1);
      shared.qk[2][lane] = below_operand(1);
    } else if (role() == 3 || tune.groups > 1) {
      meanwhile();
    }
    if constexpr (!each_inverts) {
      meet();
      if (role() == 0) shared.inverse_below[lane] = invert_below();
    }
  }
};

}  // namespace kda
