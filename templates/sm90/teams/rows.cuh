// Kd, Qd and Kr of a chunk and the scores between its tokens.  Qd, and so Aq, come times a scale.
#pragma once

#include "ptx/stmatrix.cuh"
#include "sm90/factors/inverse.cuh"
#include "sm90/factors/units.cuh"
#include "sm90/slabs/piece.cuh"
#include "sm90/teams/gate_rows.cuh"
#include "sm90/teams/load.cuh"
#include "tile/decay.cuh"

namespace kda::teams {

using Gate = slabs::Gate<steps>;

// A warp's share of the scores.
struct Scores {
  using Tiles = float[2][4];
  Tiles early, late, right;  // of each half (slabs::Piece::score_pairs)
  Tiles kk_below, qk_below;  // of the second half with the first

  // Within each half: columns 0-7 of k k, or of q k; and rows 8-15 of columns 8-15.
  KDA_DEVICE float4 kk_left(int half) const {
    return make_float4(early[half][0], early[half][1], late[half][0], late[half][1]);
  }
  KDA_DEVICE float4 qk_left(int half) const {
    return make_float4(early[half][2], early[half][3], late[half][2], late[half][3]);
  }
  KDA_DEVICE float2 kk_right(int half) const { return make_float2(right[half][0], right[half][1]); }
  KDA_DEVICE float2 qk_right(int half) const { return make_float2(right[half][2], right[half][3]); }
};

struct Rows : Team {
  using Team::Team;

  // Whether registers are left for what might be found anew for each piece: beside a walk that
  // leaves bf16 checkpoints none are.
  static constexpr bool has_room = !shape.checkpoints || shape.state_type == abi::DType::f32;

  // The warp's raw rows of a half have landed when landed(half) returns, of which gates(half, at)
  // are the GateRows, at: this lane's row of g where it has been brought; when free() returns, the
  // image may be written.  Then Kd, Qd and Kr of the warp's channels are in the image, those of the
  // first half's Kr to its end only (decay_columns), and the decay of all.
  template <class Gates, class Landed, class Free>
  KDA_DEVICE void make_rows(Scores& scores, const Gate& gate, const slabs::Triangle& triangle,
                            float2 of_tokens, float scale, const Gates& gates, const Landed& landed,
                            const Free& free) const {
    const Raw first = raw(0);
    const Raw second = raw(1);
    u32 k = first.k + row_in<Half>();
    u32 q = first.q + row_in<Half>();
    u32 g = first.g + row_in<Half>();
    u32 kd = address() + image.kd + row_in<Factor>();
    const u32 k_after =
        second.k + Factor::at(own % 8 + own / 16 * 8, warp * wide + own / 8 % 2 * 8);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) scores.kk_below[i][e] = scores.qk_below[i][e] = 0.0F;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const GateRows rows = gates(half, g);
      GateRows::Raw g_raw;  // of the piece to come
      if (gates_by_word) rows.load(g_raw, rows.at(0));
      landed(half);
      sum_squares(half, k, q);
      meet();
      Units units;
      units.take(*this, half, scale);
      clear(scores);
      if (!gates_by_word) rows.load(g_raw, rows.at(0));
      float2* whole = whole_of(half);
      constexpr u32 row_end = steps * 32;
#pragma unroll 1
      for (u32 step = 0; step < row_end; whole += 8) {
        const u32 next = step + 32;
        make_piece(scores, half, step, rows, g_raw, rows.at(next), k ^ step, q ^ step, kd ^ step,
                   k_after ^ step, whole, gate, triangle, of_tokens, units, free);
        step = next;
      }
      k = second.k + row_in<Factor>();
      q = second.q + row_in<Factor>();
      g = second.g + row_in<Factor>();
      kd = k;
    }
    __syncwarp();
    float* const decay = first_whole();
    float product[wide / 32];
#pragma unroll
    for (int i = 0; i < wide / 32; ++i) {
      const int channel = warp * wide + i * 32 + static_cast<int>(own);
      product[i] = decay[channel] * scratch().whole[channel];
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < wide / 32; ++i) {
      decay[tile::decay_place(warp * wide + i * 32 + static_cast<int>(own))] = product[i];
    }
  }

  // Where a half's raw rows come to.
  KDA_DEVICE Raw raw(int half) const {
    if (half == 0) {
      return {ptx::shared_address(scratch().k), ptx::shared_address(scratch().rows.q),
              ptx::shared_address(scratch().rows.g), Half::panel_bytes};
    }
    const u32 k = address() + image.kd + half_tokens * Factor::row_bytes;
    return {k, k + k_to_q, k + k_to_kr, Factor::panel_bytes};
  }

 private:
  // The second half's scores begin; those before are the first one's.
  static KDA_DEVICE void clear(Scores& scores) {
    const auto next = [](float(&x)[2][4]) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        x[0][e] = x[1][e];
        x[1][e] = 0.0F;
      }
    };
    next(scores.early);
    next(scores.late);
    next(scores.right);
  }

  // The warp's share of the squares: the diagonals of k k^T and q q^T.
  KDA_DEVICE void sum_squares(int half, u32 k, u32 q) const {
    float low[2][4] = {};
    float high[2][4] = {};
#pragma unroll
    for (int ks = 0; ks < steps; ++ks) {
#pragma unroll
      for (int which = 0; which < 2; ++which) {
        u32 a[4];
        ptx::ldmatrix_x4(a, (which == 0 ? k : q) ^ ks * 32);
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          ptx::mma_m16n8k8_bf16(low[which], a[i], a[i + 1], a[i]);
          ptx::mma_m16n8k8_bf16(high[which], a[i], a[i + 1], a[i + 1]);
        }
      }
    }
    const tile::Lane lane = this->lane();
    if (lane.t == lane.g / 2) {
      const bool odd = lane.g % 2 != 0;
      float2(&to)[half_tokens][warps] = scratch().squares[half];
      to[lane.g][warp] = make_float2(odd ? low[0][1] : low[0][0], odd ? low[1][1] : low[1][0]);
      to[lane.g + 8][warp] =
          make_float2(odd ? high[0][3] : high[0][2], odd ? high[1][3] : high[1][2]);
    }
  }
  // What the lane's two rows are multiplied by.
  struct Units {
    float k[2], q[2];

    KDA_DEVICE void take(const Rows& rows, int half, float scale) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float4 x =
            *reinterpret_cast<const float4*>(rows.scratch().squares[half][i * 8 + rows.lane().g]);
        k[i] = key_unit(x.x + x.z, x.y + x.w, scale);
        q[i] = query_unit(x.y + x.w, scale);
      }
    }
  };

  // Decay over the first half, where the chunk's will stand; and where over a half that of a lane's
  // two channels of the first k step's first eight stands.
  KDA_DEVICE float* first_whole() const { return reinterpret_cast<float*>(memory + image.decay); }
  KDA_DEVICE float2* whole_of(int half) const {
    char* const whole = memory + image.decay + (half == 0 ? 0 : to_second_whole);
    return reinterpret_cast<float2*>(whole) + (warp * wide / 2 + lane().t);
  }
  static constexpr int to_second_whole = scratch_at - image.decay;  // it stands first there

  // With its scores within the half added.
  KDA_DEVICE slabs::Piece piece_of(Scores& scores, const slabs::Sums& d, const u32 (&k)[4],
                                   const u32 (&q)[4], const Units& units) const {
    float(&early)[4] = scores.early[1];
    float(&late)[4] = scores.late[1];
    float(&right)[4] = scores.right[1];
    if constexpr (shape.gate != abi::Gate::bounded) {
      if (slabs::is_strong(d)) [[unlikely]]
        return slabs::Piece(lane(), d, k, q, units.k, units.q, early, late, right);
    }
    const slabs::Piece piece(lane(), d, k, q, units.k, units.q);
    piece.score_pairs(early, late, right);
    return piece;
  }

  // A half's tokens and 16 channels.  step: of its k step, the bytes before it; g_raw: of g, then
  // the next piece's, at g_next; raw_k and raw_q: this lane's rows; kd: of Kd, and k_after as
  // score_below() wants k; whole: of the half's decay.
  template <class Free>
  KDA_DEVICE void make_piece(Scores& scores, int half, u32 step, const GateRows& g,
                             GateRows::Raw& g_raw, u32 g_next, u32 raw_k, u32 raw_q, u32 kd,
                             u32 k_after, float2* whole, const Gate& gate,
                             const slabs::Triangle& triangle, float2 of_tokens, const Units& units,
                             const Free& free) const {
    slabs::Sums d;
    slabs::accumulate(d, lane(), g_raw, gate, triangle, of_tokens, static_cast<int>(step / 32));
    u32 k_raw[4];
    u32 q_raw[4];
    ptx::ldmatrix_x4(k_raw, raw_k);
    ptx::ldmatrix_x4(q_raw, raw_q);
    g.load(g_raw, g_next);
    const slabs::Piece rows = piece_of(scores, d, k_raw, q_raw, units);
    u32 k[4], q[4], kr[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) kr[i] = F16::pack(rows.k_out[i].x, rows.k_out[i].y);
    if (half == 0) {
      rows.rows<Bf16>(k, q);
      if (step == 0) free();
    } else {
      constexpr u32 to_first = k_to_kr - half_tokens * Factor::row_bytes;  // its Kr
      u32 after[4];
      if constexpr (has_room) {
        ptx::ldmatrix_x4(after, k_after + to_first);
      } else {
        u32 x[4];
        ptx::ldmatrix_x4(x, kd + to_first);
        after[0] = x[0], after[1] = x[2], after[2] = x[1], after[3] = x[3];
      }
      rows.score_below(scores.kk_below, scores.qk_below, after);
      const float2* const before = whole - to_second_whole / static_cast<int>(sizeof(float2));
#pragma unroll
      for (int i = 0; i < 4; ++i) rows.decayed_rows(i, before[i / 2 * 4], k[i], q[i]);
    }
    if (lane().g == 7) {
      whole[0] = rows.whole[0];
      whole[4] = rows.whole[1];
    }
    ptx::stmatrix_x4(kd, k);
    ptx::stmatrix_x4(kd + k_to_q, q);
    ptx::stmatrix_x4(kd + k_to_kr, kr);
  }
};

}  // namespace kda::teams
