// From a chunk's scores to Ak and Aq: the warps' shares are summed, M diag(beta) found by forward
// substitution, and both products with it formed.
#pragma once

#include "ptx/bulk.cuh"
#include "sm90/factors/group.cuh"
#include "sm90/factors/inverse.cuh"

namespace kda {

struct Solve : Group {
  using Group::Group;

  // Scores within a half: columns 0-7, and of q and of k rows 8-15 of columns 8-15.
  struct Diagonal {
    float kk[4], qk[4];
    float right[4];
  };

  static KDA_DEVICE float4 four(const float (&c)[4]) { return make_float4(c[0], c[1], c[2], c[3]); }

  // The warp's share of a half's scores.
  KDA_DEVICE void hand_in(int half, const Diagonal& sums) const {
    const int l = number_in_warp();
    LeftSums& left = shared.left(warp, half);
    left[0][l] = four(sums.kk);
    left[1][l] = four(sums.qk);
    RightSums& right = shared.right(warp, half);
    right[0][l] = make_float2(sums.right[2], sums.right[3]);
    right[1][l] = make_float2(sums.right[0], sums.right[1]);
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
  // Of all warps' shares.
  template <class Share>
  static KDA_DEVICE float4 total(const Share& share) {
    float4 x = plus(plus(share(0), share(1)), plus(share(2), share(3)));
#pragma unroll
    for (int w = 4; w < warps; w += 2) x = plus(x, plus(share(w), share(w + 1)));
    return x;
  }
  KDA_DEVICE float4 total_left(int half, int which) const {
    const int l = number_in_warp();
    return total([&](int w) { return shared.left(w, half)[which][l]; });
  }
  KDA_DEVICE float4 total_below(int which, int i) const {
    const int l = number_in_warp();
    return total([&](int w) { return shared.below_sums(w, which)[i][l]; });
  }
  KDA_DEVICE float2 total_right(int half, int which) const {
    const int l = number_in_warp();
    float2 x = make_float2(0.0F, 0.0F);
#pragma unroll
    for (int w = 0; w < warps; ++w) {
      const float2 y = shared.right(w, half)[which][l];
      x = make_float2(x.x + y.x, x.y + y.y);
    }
    return x;
  }
  // The block below of q k as an f16 A operand, and of k k what invert_below() takes: minus its
  // transpose.  Their sums come times key_scale.
  KDA_DEVICE uint4 qk_below(float up) const {
    const float one = up * (1 / key_scale);
    return operand(scaled(total_below(1, 0), one), scaled(total_below(1, 1), one));
  }
  KDA_DEVICE uint4 minus_kk_below() const {
    constexpr float minus = -1 / key_scale;
    const uint4 x = operand(scaled(total_below(0, 0), minus), scaled(total_below(0, 1), minus));
    return make_uint4(x.x, x.z, x.y, x.w);
  }

  // A diagonal block of q k, lower and diagonal, as an f16 A operand.
  KDA_DEVICE uint4 diagonal(int half, float up) const {
    return diagonal_operand(lane(), total_left(half, 1), total_right(half, 1), up);
  }

  KDA_DEVICE Inverse inverse(int half) const { return Inverse(shared.inverse(half)); }

  // M diag(beta), times strength_scale, of `count` halves from `first_half` on; one warp, a lane a
  // column.
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
      const float beta0 = whole_tf32 * shared.beta[half * half_tokens + lane.g];
      const float beta1 = whole_tf32 * shared.beta[half * half_tokens + lane.g + 8];
      const int at = 2 * lane.t * 8 + lane.g;
      float* first = shared.lower(2 * half) + at;
      first[0] = left.x * beta0;
      first[8] = left.y * beta0;
      float* second = shared.lower(2 * half + 1) + at;
      second[0] = right.x * beta1;
      second[8] = right.y * beta1;
      kk_lower[i] = F16::pack(whole_tf32 * left.z, whole_tf32 * left.w);
    }
    __syncwarp();
    const int block = 2 * first_half + l / 8 % (2 * count);
    const int column = l % 8;
    float x[8];
    substitute(x, shared.lower(block), column);
    const int first = block % 2 * 8;
    const float strength = shared.beta[block * 8 + column] * strength_scale;
    if (l < 16 * count) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        inverse(block / 2)(first + i, first + column) = F16::from_float(x[i] * strength);
      }
    }
    if (l < 8 * count) {
      *reinterpret_cast<uint4*>(&inverse(first_half + l / 8)(l % 8, 8)) = make_uint4(0, 0, 0, 0);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < count; ++i) invert_lower(inverse(first_half + i), lane, kk_lower[i]);
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

  // Whether each warp finds the block below for itself: where few groups wait for each other, a
  // meeting costs more than what all do once more.
  static constexpr bool each_inverts = tune.beside != 0;

  KDA_DEVICE uint4 invert_below() const {
    return kda::invert_below(across(0), across(1), shared.below()[number_in_warp()]);
  }

  KDA_DEVICE uint4 inverse_below() const {
    if constexpr (each_inverts) {
      return invert_below();
    } else {
      return shared.below()[number_in_warp()];
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
      if constexpr (tune.slabs != 0) {
        decay_columns(low, &shared.whole(1)[warp * slab + ks * 16 + 2 * lane().t]);
      }
      multiply_f16(low, below, kr[1][ks]);
      multiply_f16(high, second, kr[1][ks]);
      store_ak(place(image, 0, ks), low);
      store_ak(place(image, 1, ks), high);
    }
  }

  // Aq[i, m] = beta_m sum_j qk[i, j] M[j, m], a block a warp.
  KDA_DEVICE void write_aq(u32 image, uint4 m, u32 down) const {
    const int part = role();
    if (part == 0 || (warps > 4 && part > 3)) return;
    const u32 l = static_cast<u32>(thread) % 32;
    const auto block = [&](u32 row, u32 column) {
      return image + Square::at(row + l % 16, column + l / 16 * 8);
    };
    const uint4 q = shared.qk(part == 3 ? 1 : (part == 1 ? 0 : 2))[l];
    const u32 a[4] = {q.x, q.y, q.z, q.w};
    u32 b[4];
    ptx::ldmatrix_x4_trans(b, along(part == 3 ? 1 : 0));
    float c[2][4] = {};
    multiply_f16(c, a, b);
    if (part == 2) {
      const uint4 q2 = shared.qk(1)[l];
      const u32 a2[4] = {q2.x, q2.y, q2.z, q2.w};
      const u32 b2[4] = {m.x, m.z, m.y, m.w};
      multiply_f16(c, a2, b2);
    }
    store_rounded(block(part == 1 ? 0 : 16, part == 3 ? 16 : 0), c, down);
    if (part == 1) {
      const float zero[2][4] = {};
      store_rounded(block(0, 16), zero);
    }
  }

  // Between two meetings of the group; a warp or two have something else to do.
  template <class Meanwhile>
  KDA_DEVICE void solve(float up, const Meanwhile& meanwhile) const {
    const int lane = number_in_warp();
    const int role = this->role();
    if (role == 0 || (role == 3 && each_inverts)) {
      invert<each_inverts ? 1 : 2>(role == 0 ? 0 : 1);
    } else if (role == 1) {
      shared.below()[lane] = minus_kk_below();
      shared.qk(0)[lane] = diagonal(0, up);
      shared.qk(1)[lane] = diagonal(1, up);
      shared.qk(2)[lane] = qk_below(up);
    } else if (role == 3 || tune.groups > 1) {
      meanwhile();
    }
    if constexpr (!each_inverts) {
      meet();
      if (role == 0) shared.below()[lane] = invert_below();
    }
  }

  // Of a chunk whose rows are made: Ak in place of Kr, and Aq, once the group has met.  `meanwhile`
  // is done by warps that have nothing to solve (of role 2 and more, of a block's only group 3,
  // where a warp inverts each half 2), after_solve by all, once those are through with it.
  template <class Meanwhile, class AfterSolve>
  KDA_DEVICE void make_writers(u32 address, const ScoreSize& size, const Meanwhile& meanwhile,
                               const AfterSolve& after_solve) const {
    solve(size.up, meanwhile);
    meet();
    after_solve();
    const uint4 below = inverse_below();
    write_ak(address + image.ak, below);
    write_aq(address + image.aq, below, size.down);
    ptx::fence_async_proxy();
  }
};

}  // namespace kda
