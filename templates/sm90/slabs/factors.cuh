// Kd, Qd and Kr of a chunk and the scores between its tokens, where the gate keeps every half of a
// chunk in range of an anchor at its start (Tuning::slabs): as sm90/factors/scores.cuh, but each
// warp has the decays of its channels in registers.  Qd, and so Aq, come times a scale.
#pragma once

#include "ptx/bulk.cuh"
#include "ptx/stmatrix.cuh"
#include "sm90/slabs/lengths.cuh"
#include "sm90/slabs/piece.cuh"
#include "tile/decay.cuh"

namespace kda::slabs {

struct Factors : Lengths {
  using Lengths::Lengths;
  using Gate = slabs::Gate<k_steps>;

  // The warp's raw rows have landed, and the group has done with the last chunk's scores, beta
  // excepted; when free() returns, the image may be written.  Then Kd, Qd and the decay, visible to
  // the group (to the copy engine once make_writers() is through), and the scores.
  template <class Free>
  KDA_DEVICE void make_rows(char* buffer, u32 address, const Gate& gate, float2 of_tokens,
                            float scale, const Free& free) const {
    sum_squares();
    meet();
    build(address, gate, of_tokens, scale, free);
    if (number_in_warp() < slab) {
      const int channel = warp * slab + number_in_warp();
      reinterpret_cast<float*>(buffer + image.decay)[tile::decay_place(channel)] =
          shared.whole(0)[channel] * shared.whole(1)[channel];
    }
    meet();
  }

 private:
  // Of the first or second eight channels of a k step, a lane's two.
  KDA_DEVICE float* whole_at(int half, int ks, int i) const {
    return &shared.whole(half)[warp * slab + ks * 16 + i * 8 + 2 * lane().t];
  }
  // After the last, some other.
  static KDA_DEVICE u32 next_piece(Raw raw, int half, int ks) {
    if (k_steps == 1) return piece(raw, 1, 0);
    return piece(raw, half | ks, ks ^ 1);
  }

  // The warp's slab.  One text for both halves and k steps: what three groups and a walk have in
  // turn must find room in the cache for instructions.  Kr of the first half goes to its end only
  // (decay_columns).
  template <class Free>
  KDA_DEVICE void build(u32 address, const Gate& gate, float2 of_tokens, float scale,
                        const Free& free) const {
    const float k_units = key_unit(scale);
    const float q_units = query_unit(scale);
    const Raw raw = this->raw();
    const tile::Place<Factor> kd{place(address + image.kd, 0, 0)};
    float kk_below[2][4] = {};
    float qk_below[2][4] = {};
    u32 g_raw[4];  // of the piece to come
    ptx::ldmatrix_x4_trans(g_raw, piece(raw, 0, 0) + apart);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      Diagonal now{};
      float k_unit[2], q_unit[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = half * half_tokens + i * 8 + lane().g;
        k_unit[i] = __shfl_sync(0xffffffffU, k_units, token);
        q_unit[i] = __shfl_sync(0xffffffffU, q_units, token);
      }
#pragma unroll 1
      for (int ks = 0; ks < k_steps; ++ks) {
        Sums d;
        const u32 k_piece = piece(raw, half, ks);
        const auto g = [&](int i) { return Gate16::unpack(g_raw[i]); };
        accumulate(d, lane(), g, gate, Triangle(lane()), of_tokens, ks);
        u32 k_raw[4];
        u32 q_raw[4];
        ptx::ldmatrix_x4(k_raw, k_piece);
        ptx::ldmatrix_x4(q_raw, k_piece - apart);
        const Piece rows(lane(), d, k_raw, q_raw, k_unit, q_unit);
        if (lane().g == 7) {
          put(whole_at(half, ks, 0), rows.whole[0]);
          put(whole_at(half, ks, 1), rows.whole[1]);
        }
        rows.score(now.kk, now.qk, now.right);
        u32 k[4], q[4], kr[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) kr[i] = F16::pack(rows.k_out[i].x, rows.k_out[i].y);
        ptx::ldmatrix_x4_trans(g_raw, next_piece(raw, half, ks) + apart);
        if (half == 0) {
          rows.rows<Bf16>(k, q);
          if (ks == 0) free();
        } else {
          u32 after[4];
          ptx::ldmatrix_x4(after, kd.at(0, ks * 16) + k_to_kr);
          const u32 by_token[4] = {after[0], after[2], after[1], after[3]};
          rows.score_below(kk_below, qk_below, by_token);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float2 before = *reinterpret_cast<const float2*>(whole_at(0, ks, i / 2));
            rows.decayed_rows(i, before, k[i], q[i]);
          }
        }
        const u32 at = kd.at(half * half_tokens, ks * 16);
        ptx::stmatrix_x4(at, k);
        ptx::stmatrix_x4(at + k_to_q, q);
        ptx::stmatrix_x4(at + k_to_kr, kr);
      }
      __syncwarp();
      hand_in(half, now);
    }
    hand_in_below(kk_below, qk_below);
  }
};

}  // namespace kda::slabs
