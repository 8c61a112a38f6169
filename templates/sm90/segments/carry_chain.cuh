// The chain of a state before a segment, with v = 0, that adds to o, and when it is forgotten.
#pragma once

#include "abi/segments.h"
#include "base/types.cuh"
#include "ptx/barrier.cuh"
#include "ptx/shared_words.cuh"
#include "sm90/chunk_wgmma/consumer.cuh"
#include "sm90/segments/looks.cuh"
#include "sm90/segments/walk_part.cuh"

namespace kda {

struct Carry {
  static constexpr bool begins_before = true;
  static constexpr bool adds = true;
  const Chain::Ring& ring;
  const abi::segments::Args& args;
  u32 tile;  // of S_local
  int chunks;
  float unscaled;            // o is added to before it is scaled
  bool looks;                // whether it ends where nothing is seen of the state
  bool stops;                // and then those who bring chunks are told
  float begun[2];            // squared lengths of this lane's two columns before the segment
  mutable float lengths[2];  // and at the next look, of S_local's

  KDA_DEVICE Carry(const Chain::Ring& in, const abi::segments::Args& of, u32 of_tile,
                   const Task& task, const RowSums& before, bool ends, bool tells)
      : ring(in),
        args(of),
        tile(of_tile),
        chunks(task.chunks),
        unscaled(1.0F / of.chain.in.scale),
        looks(ends),
        stops(tells),
        begun{before.of[0], before.of[1]} {
    fetch(1);
  }

  template <class Chain>
  KDA_DEVICE void load_values(u32 (&o)[Chain::chunk_tiles / 2][4], u32 own) const {
    chunk_wgmma::load_values_transposed<Chain>(o, own);
  }
  KDA_DEVICE constexpr float output_scale(float scale) const { return scale; }
  KDA_DEVICE bool goes_on(int left, const Chain::State& state) const {
    const int gone = chunks - left;
    bool goes = true;
    if (looks && abi::segments::is_carry_look(gone)) {
      goes = is_seen(state, gone);
      if (!goes && stops && threadIdx.x == 0) {
        ptx::st_shared_u32(stop_of(ring), static_cast<u32>(left));
      }
      // Known to be the same for a whole warp (Transitions).
      goes = __shfl_sync(0xffffffffU, goes ? 1 : 0, 0) != 0;
    }
    if (abi::segments::is_carry_look(gone + 1)) fetch(gone + 1);
    return goes;
  }

 private:
  // Ahead of the look: they come from the L2.
  KDA_DEVICE void fetch(int gone) const {
    const float* from = noted(gone) + column_noted(static_cast<int>(threadIdx.x));
    lengths[0] = __ldcg(from);
    lengths[1] = __ldcg(from + 8);
  }
  KDA_DEVICE const float* noted(int gone) const {
    return carry_noted_at<shape>(args, tile, abi::segments::carry_look_at(gone));
  }

  // Whether what is carried may be seen beside S_local, in a V column or in a channel, as gates may
  // clear the others; nor is it forgotten while it is not small beside the state before the
  // segment, as what has been written since may be taken away again.
  KDA_DEVICE bool is_seen(const Chain::State& state, int gone) const {
    if (ptx::barrier_vote_any(1, 128, has_seen_column(state))) return true;
    const bool seen = has_seen_channel(state.s[0], noted(gone), static_cast<int>(threadIdx.x));
    return ptx::barrier_vote_any(1, 128, seen);
  }
  KDA_DEVICE bool has_seen_column(const Chain::State& state) const {
    constexpr float most = abi::segments::most_lost * abi::segments::most_lost;
    const RowSums squares(state.s[0], square);
    bool seen = false;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      if (says_something(lengths[row])) {
        seen |= !(squares.of[row] <= most * fminf(lengths[row], begun[row]));
      } else {  // unless nothing is carried into such a column
        seen |= !is_nothing(state.s[0], row);
      }
    }
    return seen;
  }

  template <int count>
  static KDA_DEVICE bool is_nothing(const float (&s)[count][4], int row) {
    u32 bits = 0;
#pragma unroll
    for (const auto& x : s) {
#pragma unroll
      for (int e = 0; e < 2; ++e) bits |= __float_as_uint(row == 0 ? x[e] : x[2 + e]);
    }
    return (bits & 0x7fffffffU) == 0;
  }
};

}  // namespace kda
