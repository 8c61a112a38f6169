// Kd, Qd and Kr of a chunk, and the scores between its tokens.
//
// Within a half, one product of k exp2(D) and k exp2(-D) gives all scores, exact as long as
// exp2(-D) is in range; the block below the two halves takes k from the end of the first and to the
// start of the second, both factors at most 1.  Where a half decays by more than 2^-120 its
// products are anchored at the middle instead; where that is not enough either, its scores come
// pair by pair.
//
// Operands are tf32 within a half and f16 below: of keys that repeat, what tokens write cancels,
// and what is left is what rounding each one's operand made of it, which of bf16 was too much.
#pragma once

#include "ptx/stmatrix.cuh"
#include "sm90/factors/decays.cuh"

namespace kda {

struct Scores : Decays {
  using Decays::Decays;

  enum class Anchor { start, middle, none };

  // The warp's slab: Kd and Qd in place of k and q, Kr (f16, times key_scale) in place of g, and
  // its share of the scores' sums, those below the halves times key_scale, too.  Without an anchor
  // the diagonal blocks come ready, half h's with warp h.
  template <Anchor anchor>
  KDA_DEVICE void build(u32 buffer, const Diagonal& ready) const {
    const tile::Lane lane = this->lane();
    float kk_below[2][4] = {};
    float qk_below[2][4] = {};
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      AnyGateScratch::Slice& slice = shared.slices[warp][half];
      Diagonal now{};
      float k_unit[2];
      float q_unit[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        k_unit[i] = key_unit(half * half_tokens + i * 8 + lane.g);
        q_unit[i] = query_unit(half * half_tokens + i * 8 + lane.g);
      }
#pragma unroll 1
      for (int ks = 0; ks < k_steps; ++ks) {
        const u32 k_at = place(buffer + image.kd, half, ks);
        const int channel = warp * slab + ks * 16 + 2 * lane.t;
        const auto at = [&](const float* x, int i) {
          return *reinterpret_cast<const float2*>(&x[channel + i / 2 * 8]);
        };
        u32 k_raw[4];
        u32 q_raw[4];
        ptx::ldmatrix_x4(k_raw, k_at);
        ptx::ldmatrix_x4(q_raw, k_at + k_to_q);
        float2 k_up[4], q_up[4], k_down[4];  // from the anchor, and back to it
        float2 k_in[4], q_in[4], k_out[4];   // from the half's start, to its end times key_scale
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float2 d = *reinterpret_cast<const float2*>(
              &slice.decay[lane.g + i % 2 * 8][ks * 16 + 2 * lane.t + i / 2 * 8]);
          const float2 k = times(Element::unpack(k_raw[i]), k_unit[i % 2]);
          const float2 q = times(Element::unpack(q_raw[i]), q_unit[i % 2]);
          if constexpr (anchor == Anchor::start) {
            const float2 up = exp2_of(d);
            const float2 down = exp2_of(make_float2(-d.x, -d.y));
            k_up[i] = k_in[i] = times(k, up);
            q_up[i] = q_in[i] = times(q, up);
            k_down[i] = times(k, down);
            k_out[i] = times(k_down[i], times(at(shared.whole(half), i), key_scale));
          } else {
            float2 end = at(shared.decays.whole_log[half], i);
            end = make_float2(end.x + key_bits, end.y + key_bits);
            k_in[i] = times(k, exp2_of(d));
            q_in[i] = times(q, exp2_of(d));
            k_out[i] = times(k, exp2_of(make_float2(end.x - d.x, end.y - d.y)));
            if constexpr (anchor == Anchor::middle) {
              const float2 middle = at(shared.decays.middle_log[half], i);
              const float2 from = make_float2(d.x - middle.x, d.y - middle.y);
              k_up[i] = times(k, exp2_of(from));
              q_up[i] = times(q, exp2_of(from));
              k_down[i] = times(k, exp2_of(make_float2(-from.x, -from.y)));
            }
          }
        }
        if constexpr (anchor != Anchor::none) {
          if constexpr (exact_scores) {
            multiply_tf32_exactly(now.kk, now.qk, now.right, k_up, q_up, k_down);
          } else if constexpr (careful) {
            multiply_tf32_rounded(now.kk, now.qk, now.right, k_up, q_up, k_down);
          } else {
            multiply_tf32(now.kk, now.qk, now.right, k_up, q_up, k_down);
          }
        }
        // Within the chunk: the first half starts where it does, the second ends where it does.
        uint4& after = shared.k_after[0][warp][ks][thread % 32];
        u32 kr[4];
        u32 kr_lost[4];
        if (half == 0) {
          u32 x[4], kd[4], qd[4];
          u32 x_lost[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float2 to_end = times(k_out[i], at(shared.whole(1), i));
            x[i] = F16::pack(k_out[i].x, k_out[i].y);
            kr[i] = F16::pack(to_end.x, to_end.y);
            if constexpr (exact_scores) x_lost[i] = lost_by_f16(x[i], k_out[i]);
            if constexpr (careful) kr_lost[i] = lost_by_f16(kr[i], to_end);
            kd[i] = Element::pack(k_in[i].x, k_in[i].y);
            qd[i] = Element::pack(q_in[i].x, q_in[i].y);
          }
          after = make_uint4(x[0], x[1], x[2], x[3]);
          if constexpr (exact_scores) {
            shared.k_after[1][warp][ks][thread % 32] =
                make_uint4(x_lost[0], x_lost[1], x_lost[2], x_lost[3]);
          }
          ptx::stmatrix_x4(k_at, kd);
          ptx::stmatrix_x4(k_at + k_to_q, qd);
        } else {
          const uint4 x = after;
          const u32 b[4] = {x.x, x.y, x.z, x.w};
          u32 k_rows[4], q_rows[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            k_rows[i] = F16::pack(k_in[i].x, k_in[i].y);
            q_rows[i] = F16::pack(q_in[i].x, q_in[i].y);
          }
          if constexpr (exact_scores) {
            const uint4 y = shared.k_after[1][warp][ks][thread % 32];
            const u32 b_lost[4] = {y.x, y.y, y.z, y.w};
            multiply_lost(kk_below, k_in, k_rows, b, b_lost);
            multiply_lost(qk_below, q_in, q_rows, b, b_lost);
          }
          multiply_rows_f16(kk_below, k_rows, b);
          multiply_rows_f16(qk_below, q_rows, b);
          u32 kd[4], qd[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float2 before = at(shared.whole(0), i);
            const float2 k = times(k_in[i], before);
            const float2 q = times(q_in[i], before);
            kd[i] = Element::pack(k.x, k.y);
            qd[i] = Element::pack(q.x, q.y);
            kr[i] = F16::pack(k_out[i].x, k_out[i].y);
            if constexpr (careful) kr_lost[i] = lost_by_f16(kr[i], k_out[i]);
          }
          ptx::stmatrix_x4(k_at, kd);
          ptx::stmatrix_x4(k_at + k_to_q, qd);
        }
        ptx::stmatrix_x4(k_at + k_to_kr, kr);
        if constexpr (careful) ptx::stmatrix_x4(k_at + k_to_kr_rest, kr_lost);
      }
      __syncwarp();
      if constexpr (anchor == Anchor::none) {
        if (half == warp) now = ready;
      }
      hand_in(half, now);
    }
    hand_in_below(kk_below, qk_below);
  }
};

}  // namespace kda
