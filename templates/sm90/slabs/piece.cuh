// Half the tokens and 16 channels, in the registers where the scores' products want them: decays as
// log2 sums D from the half's start, and the rows of k and q decayed by them.
//
// D = U L, U the lower triangle of ones and L the tokens' log2 decays, a product of f16.  Of a
// bounded gate of 16 bits that rounds L to 2^-11 of itself, besides what apart() moves it by, where
// g has had as much or 2^-8; of others L is two f16.  Sums and differences of D are then exact to
// f32.
//
// Within a half, one product of k exp2(D) and k exp2(-D) gives all scores, exact as long as
// exp2(-D) is in range, which a bounded gate sees to; else tokens have an anchor near them each,
// and each anchor a product.  The block below the two halves takes k from the end of the first and
// to the start of the second, both factors at most 1.  Operands are tf32 and f16
// (sm90/factors/scores.cuh).
#pragma once

#include "ptx/mma.cuh"
#include "sm90/factors/inverse.cuh"
#include "sm90/slabs/gate.cuh"
#include "tile/operand.cuh"

namespace kda::slabs {

// D: columns 0-7 and 8-15, as C tiles.
using Sums = float[2][4];

// How far an anchor reaches where tokens have several: not so far that q times a scale of 2^-10 and
// exp2(D) has fewer bits than tf32.
constexpr float furthest_from_anchor = -110.0F;

// Whether some D of a warp's is out of an anchor's range: one answer for all of it.
KDA_DEVICE bool is_strong(const Sums& d) {
  const float least = fminf(fminf(d[0][2], d[0][3]), fminf(d[1][2], d[1][3]));  // last tokens'
  return __any_sync(0xffffffffU, least < furthest_from_anchor) != 0;
}

// U, an A operand.
struct Triangle {
  u32 a[4];

  // held: for many pieces.  What comes by shuffles ptxas does not know, so that it holds it, where
  // else it makes three of the registers anew for each.
  KDA_DEVICE explicit Triangle(const tile::Lane& lane, bool held = false) {
    constexpr u32 one = (15 - Gate<1>::scale_bits) << 10;  // by which L comes too large
    constexpr u32 ones = one | one << 16;
    const u32 corner = 2 * lane.t + 1 <= lane.g ? ones : (2 * lane.t <= lane.g ? one : 0);
    const auto of = [&](int g, int t) { return __shfl_sync(0xffffffffU, corner, g * 4 + t); };
    a[0] = corner;
    a[1] = held ? of(7, 0) : ones;
    a[2] = held ? of(0, 3) : 0;
    a[3] = held ? of(lane.g, lane.t) : corner;
  }
};

// Of a piece of raw g, its k step's: raw(i), as ldmatrix_x4_trans loads it.
template <class Raw, class Gate>
KDA_DEVICE void accumulate(Sums& d, const tile::Lane& lane, const Raw& raw, const Gate& gate,
                           const Triangle& triangle, float2 of_tokens, int ks) {
  float l[2][4];
  const float2 depths = gate.depths(of_tokens);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 g = raw(i);
    const float offset = gate.offset_of(lane, ks, i / 2);
    l[i / 2][i % 2 * 2] = gate.log_decay(g.x, offset, depths.x);
    l[i / 2][i % 2 * 2 + 1] = gate.log_decay(g.y, offset, depths.y);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    d[i][0] = d[i][1] = d[i][2] = d[i][3] = 0.0F;
    const u32 b[2] = {F16::pack(l[i][0], l[i][1]), F16::pack(l[i][2], l[i][3])};
    ptx::mma_m16n8k16_f16(d[i], triangle.a, b);
    if constexpr (Gate::is_exact) {
      const float2 low = F16::unpack(b[0]);
      const float2 high = F16::unpack(b[1]);
      const u32 rest[2] = {F16::pack(l[i][0] - low.x, l[i][1] - low.y),
                           F16::pack(l[i][2] - high.x, l[i][3] - high.y)};
      ptx::mma_m16n8k16_f16(d[i], triangle.a, rest);
    }
  }
}

// The rows, a lane's two elements of the tokens lane / 4 and lane / 4 + 8 and either eight
// channels.
class Piece {
 public:
  float2 k_out[4];  // k to the half's end, times key_scale
  float2 whole[2];  // decay over the half, where the lane has its last token

  // Of raw rows; k_unit and q_unit make those of the two tokens of length one.
  KDA_DEVICE Piece(const tile::Lane& lane, const Sums& d, const u32 (&k_raw)[4],
                   const u32 (&q_raw)[4], const float (&k_unit)[2], const float (&q_unit)[2]) {
    float2 up[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      up[i] = exp2_of(make_float2(d[i / 2][i % 2 * 2], d[i / 2][i % 2 * 2 + 1]));
    }
    whole[0] = up[1];
    whole[1] = up[3];
    const float2 end[2] = {times(of_last(lane, up[1]), key_scale),
                           times(of_last(lane, up[3]), key_scale)};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 down = exp2_of(make_float2(-d[i / 2][i % 2 * 2], -d[i / 2][i % 2 * 2 + 1]));
      const float2 k_here = times(Bf16::unpack(k_raw[i]), k_unit[i % 2]);
      const float2 q_here = times(Bf16::unpack(q_raw[i]), q_unit[i % 2]);
      k_in_[i] = times(k_here, up[i]);
      q_in_[i] = times(q_here, up[i]);
      k_down_[i] = times(k_here, down);
      k_out[i] = times(k_down_[i], end[i / 2]);
    }
  }

  // Where a half is strong: adds the scores within it, too, which score_pairs() then must not.  A
  // product has its anchor at a token, and is of those from there on that are in its range.
  KDA_DEVICE Piece(const tile::Lane& lane, const Sums& d, const u32 (&k_raw)[4],
                   const u32 (&q_raw)[4], const float (&k_unit)[2], const float (&q_unit)[2],
                   float (&early)[4], float (&late)[4], float (&right)[4]) {
    int from = 0;
#pragma unroll 1
    do {
      float2 past[4];  // D from the anchor
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = from / 8 * 2;
        const int source = from % 8 * 4 + static_cast<int>(lane.t);
        const auto anchor = [&](int channel) {
          const float x = at == 0 ? d[i / 2][channel] : d[i / 2][2 + channel];
          return __shfl_sync(0xffffffffU, x, source);
        };
        past[i] = make_float2(d[i / 2][i % 2 * 2] - anchor(0), d[i / 2][i % 2 * 2 + 1] - anchor(1));
      }
      const auto first_far = [&](int i) {  // of tokens i * 8 and so on
        const float least = fminf(fminf(past[i].x, past[i].y), fminf(past[i + 2].x, past[i + 2].y));
        const u32 far = __ballot_sync(0xffffffffU, !(least >= furthest_from_anchor));
        return far == 0 ? 8 : (__ffs(static_cast<int>(far)) - 1) / 4;
      };
      const int early_end = first_far(0);
      int end = early_end < 8 ? early_end : 8 + first_far(1);
      if (end <= from) end = from + 1;  // of NaN
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = static_cast<int>(lane.g) + i % 2 * 8;
        const float2 zero = make_float2(0.0F, 0.0F);
        const float2 up = token >= from ? exp2_of(past[i]) : zero;
        const float2 down =
            token >= from && token < end ? exp2_of(make_float2(-past[i].x, -past[i].y)) : zero;
        const float2 k_here = times(Bf16::unpack(k_raw[i]), k_unit[i % 2]);
        const float2 q_here = times(Bf16::unpack(q_raw[i]), q_unit[i % 2]);
        k_in_[i] = times(k_here, up);
        q_in_[i] = times(q_here, up);
        k_down_[i] = times(k_here, down);
      }
      score_pairs(early, late, right);
      from = end;
    } while (from < half_tokens);
    float2 last[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      last[i] = of_last(lane, make_float2(d[i][2], d[i][3]));
      whole[i] = exp2_of(last[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 here = make_float2(d[i / 2][i % 2 * 2], d[i / 2][i % 2 * 2 + 1]);
      const float2 up = exp2_of(here);
      const float2 to_end =
          make_float2(last[i / 2].x - here.x + key_bits, last[i / 2].y - here.y + key_bits);
      const float2 k_here = times(Bf16::unpack(k_raw[i]), k_unit[i % 2]);
      k_in_[i] = times(k_here, up);
      q_in_[i] = times(times(Bf16::unpack(q_raw[i]), q_unit[i % 2]), up);
      k_out[i] = times(k_here, exp2_of(to_end));
    }
  }

  // Adds the scores within the half.
  KDA_DEVICE void score(float (&kk)[4], float (&qk)[4], float (&right)[4]) const {
    multiply_tf32(kk, qk, right, k_in_, q_in_, k_down_);
  }
  // The same, in each tile a row of k and then one of q: the tokens 0-7 and 8-15 with the first
  // eight, and 8-15 with the last.
  KDA_DEVICE void score_pairs(float (&early)[4], float (&late)[4], float (&right)[4]) const {
    const auto u = [](float x) { return __float_as_uint(x); };
    const auto both = [&](u32(&to)[4], int i) {
      to[0] = u(k_in_[i].x), to[1] = u(q_in_[i].x), to[2] = u(k_in_[i].y), to[3] = u(q_in_[i].y);
    };
#pragma unroll
    for (int i = 0; i < 4; i += 2) {  // eight channels
      u32 early_rows[4], late_rows[4];
      both(early_rows, i);
      both(late_rows, i + 1);
      const u32 first[2] = {u(k_down_[i].x), u(k_down_[i].y)};
      const u32 last[2] = {u(k_down_[i + 1].x), u(k_down_[i + 1].y)};
      ptx::mma_m16n8k8_tf32(early, early_rows, first);
      ptx::mma_m16n8k8_tf32(late, late_rows, first);
      ptx::mma_m16n8k8_tf32(right, late_rows, last);
    }
  }
  // And those of the second half, given k to the first one's end: its tokens 0-7, and 8-15.
  KDA_DEVICE void score_below(float (&kk)[2][4], float (&qk)[2][4], const u32 (&after)[4]) const {
    u32 k[4], q[4];
    rows<F16>(k, q);
    multiply_f16(kk, k, after);
    multiply_f16(qk, q, after);
  }

  // From the half's start.
  template <class Type>
  KDA_DEVICE void rows(u32 (&k)[4], u32 (&q)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      k[i] = Type::pack(k_in_[i].x, k_in_[i].y);
      q[i] = Type::pack(q_in_[i].x, q_in_[i].y);
    }
  }

  // From the chunk's start, given the decay before the half of the lane's channels.
  KDA_DEVICE void decayed_rows(int i, float2 before, u32& k, u32& q) const {
    const float2 k_chunk = times(k_in_[i], before);
    const float2 q_chunk = times(q_in_[i], before);
    k = Bf16::pack(k_chunk.x, k_chunk.y);
    q = Bf16::pack(q_chunk.x, q_chunk.y);
  }

 private:
  static KDA_DEVICE float2 exp2_of(float2 x) {
    return make_float2(step::exp2f_approximate(x.x), step::exp2f_approximate(x.y));
  }
  static KDA_DEVICE float2 times(float2 x, float2 y) { return make_float2(x.x * y.x, x.y * y.y); }
  static KDA_DEVICE float2 times(float2 x, float y) { return make_float2(x.x * y, x.y * y); }

  // A lane's channels of the half's last token, of what each has of its second eight tokens.
  static KDA_DEVICE float2 of_last(const tile::Lane& lane, float2 x) {
    const int from = 28 + static_cast<int>(lane.t);
    return make_float2(__shfl_sync(0xffffffffU, x.x, from), __shfl_sync(0xffffffffU, x.y, from));
  }

  float2 k_in_[4], q_in_[4], k_down_[4];
};

}  // namespace kda::slabs
