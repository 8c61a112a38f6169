// Scores within the halves of a chunk pair by pair: for decays that no anchor serves.
#pragma once

#include "sm90/factors/scores.cuh"

namespace kda {

struct Pairs : Scores {
  using Scores::Scores;

  // Scores within the halves, pair by pair: for decays that no anchor serves.
  KDA_DEVICE void score_pairs(const char* buffer) const {
    constexpr int own = keys / 32;  // channels a lane
    const int lane = thread % 32;
    // Side by side, or where a slab is not whole lanes' by pairs.
    constexpr bool together = slab % own == 0;
    const int c = lane * (together ? own : 2);
    const auto channel = [&](int e) { return together ? c + e : c + e / 2 * 64 + e % 2; };
    const auto read = [&](const char* image, int token, float(&x)[own]) {
#pragma unroll
      for (int e = 0; e < own; e += 2) {
        const float2 pair = load_pair<type>(
            image + Factor::at(static_cast<u32>(token), static_cast<u32>(channel(e))), 0);
        x[e] = pair.x;
        x[e + 1] = pair.y;
      }
    };
#pragma unroll 1
    for (int i = warp; i < chunk; i += warps) {
      const int half = i / half_tokens;
      float k[own];
      float q[own];
      read(buffer + image.kd, i, k);
      read(buffer + image.qd, i, q);
      const auto decays = [&](int token) {
        return &shared.slices[c / slab][half].decay[token % half_tokens][c % slab];
      };
      // Pairs 64 channels apart are two slabs apart.
      constexpr int apart = 2 * sizeof(shared.slices[0]) / sizeof(float);
      const auto place = [](int e) { return together ? e : e / 2 * apart + e % 2; };
      const float* di = decays(i);
#pragma unroll 1
      for (int j = half * half_tokens; j <= i; ++j) {
        float kj[own];
        read(buffer + image.kd, j, kj);
        const float* dj = decays(j);
        float kk = 0.0F;
        float qk = 0.0F;
#pragma unroll
        for (int e = 0; e < own; ++e) {
          const float x = kj[e] * step::exp2f_approximate(di[place(e)] - dj[place(e)]);
          kk += k[e] * x;
          qk += q[e] * x;
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
          kk += __shfl_xor_sync(0xffffffffU, kk, step);
          qk += __shfl_xor_sync(0xffffffffU, qk, step);
        }
        if (lane == 0) {
          const float unit = key_unit(j);
          shared.pairs[half][0][i % half_tokens][j % half_tokens] = kk * unit * key_unit(i);
          shared.pairs[half][1][i % half_tokens][j % half_tokens] = qk * unit * query_unit(i);
        }
      }
    }
  }

  // The first half's by warp 0, the second's by warp 1: the warps' shares are added.
  KDA_DEVICE Diagonal take_pairs() const {
    Diagonal sums{};
    if (warp > 1) return sums;
    const tile::Lane lane = this->lane();
    const auto at = [&](const float(&x)[half_tokens][half_tokens], int i) {
      const int row = lane.g + i / 2 % 2 * 8;
      const int column = i / 4 * 8 + 2 * lane.t + i % 2;
      return column <= row ? x[row][column] : 0.0F;
    };
    const auto& kk = shared.pairs[warp][0];
    const auto& qk = shared.pairs[warp][1];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums.kk[i] = at(kk, i);
      sums.qk[i] = at(qk, i);
      sums.right[i] = i < 2 ? at(qk, 6 + i) : at(kk, 4 + i);
    }
    return sums;
  }
};

}  // namespace kda
