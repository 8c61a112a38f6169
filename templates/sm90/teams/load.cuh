// Half a chunk's raw q, k and g on their way to a team's memory: by the copy engine, or element by
// element where it does not take the tensors' layout.  But for a g of 32 bits (gate_rows.cuh).
#pragma once

#include "abi/tensors.h"
#include "ptx/bulk.cuh"
#include "ptx/elect.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/tensor_copy.cuh"
#include "sm90/slabs/gate.cuh"
#include "sm90/teams/gate_rows.cuh"
#include "sm90/teams/team.cuh"

namespace kda::teams {

// Where they go, from the tile's begin on; a panel of 64 channels to the next is as far in all.
struct Raw {
  u32 k, q, g;
  u32 panel;
};

struct Load {
  const Team& team;
  u32 barrier;

  // The warp's share of the copies, where the engine takes the tensors, once nobody has to do with
  // what stands there any more.
  template <class Place>
  KDA_DEVICE void start(const Raw& to, const abi::factors::RawMaps& maps, const Place& place,
                        int half) const {
    if (!maps.present) {
      // The first half's arrive as they have been loaded; by now all have waited for that.
      if (half == 1 && ptx::elect()) ptx::mbarrier_arrive(barrier);
      return;
    }
    if (place.rows == 0 || !ptx::elect()) return;
    const int head = place.head;
    const int qk_head = head / shape.group;
    const int token = place.token + half * half_tokens;
    const int n = place.map_n();
    const u32 at = panels == 2 ? team.warp * to.panel : 0;
    const int slab = panels == 2 ? team.warp : 0;
    // What the team wrote where the second half's come it has fenced with its factors.
    if (half == 0) ptx::fence_async_proxy();
    if (panels == 2) {
      ptx::mbarrier_arrive_expecting(barrier, (gates_by_word ? 2 : 3) * panel_bytes);
      if (!gates_by_word) ptx::tensor_load(to.g + at, maps.g, {token, slab, head, n}, barrier);
      ptx::tensor_load(to.k + at, maps.k, {token, slab, qk_head, n}, barrier);
      ptx::tensor_load(to.q + at, maps.q, {token, slab, qk_head, n}, barrier);
    } else if (team.warp == 0) {
      ptx::mbarrier_arrive_expecting(barrier, (gates_by_word ? 1 : 2) * panel_bytes);
      if (!gates_by_word) ptx::tensor_load(to.g, maps.g, {token, 0, head, n}, barrier);
      ptx::tensor_load(to.k, maps.k, {token, 0, qk_head, n}, barrier);
    } else {
      ptx::mbarrier_arrive_expecting(barrier, panel_bytes);
      ptx::tensor_load(to.q, maps.q, {token, 0, qk_head, n}, barrier);
    }
  }

  // Until the team's rows are there.  A chunk has the barrier's next two phases, one a half, so the
  // second half's arrivals come when the first one's have been waited for.
  KDA_DEVICE void wait(int half) const { ptx::mbarrier_wait(barrier, static_cast<u32>(half)); }

  // Where the engine does not take them, before that or after, as the memory is free.
  template <class Place>
  KDA_DEVICE void by_hand(const Raw& to, const abi::Inputs& in, const Place& place,
                          int half) const {
    const int rows = place.rows - half * half_tokens;
    const i64 tokens = half * half_tokens;
    load_elements(to.k, to.panel, in.k, place.k_origin(in) + tokens * in.k.token, rows);
    load_elements(to.q, to.panel, in.q, place.q_origin(in) + tokens * in.q.token, rows);
    if constexpr (!gates_by_word) {
      load_elements(to.g, to.panel, in.g, place.g_origin(in) + tokens * in.g.token, rows);
    }
    __syncwarp();
    if (half == 0 && ptx::elect()) ptx::mbarrier_arrive(barrier);
  }

  // What does not exist becomes zeros in k and q, and no decay in g (slabs::closed_gate): the
  // engine brings the tokens that follow.  Of the warp's channels; rows: of the chunk.
  KDA_DEVICE void finish(const Raw& to, int rows, int half) const {
    const int exist = rows - half * half_tokens;
    if (exist >= half_tokens) [[likely]]
      return;
    constexpr u32 row_units = wide / 8;  // of 16 bytes
#pragma unroll 1
    for (u32 i = (exist > 0 ? exist : 0) * row_units + team.own; i < half_tokens * row_units;
         i += 32) {
      const u32 at = place(to.panel, i / row_units, i % row_units * 8);
      ptx::st_shared_u32x4(to.k + at, make_uint4(0, 0, 0, 0));
      ptx::st_shared_u32x4(to.q + at, make_uint4(0, 0, 0, 0));
      constexpr u32 x = slabs::closed_gate | slabs::closed_gate << 16;
      if (!gates_by_word) ptx::st_shared_u32x4(to.g + at, make_uint4(x, x, x, x));
    }
    __syncwarp();
  }

 private:
  static constexpr int panels = keys / 64;
  static constexpr u32 panel_bytes = half_tokens * 128;
  static_assert(panels == 1 || panels == warps);

  // Where a row's channel of the warp's stands.
  KDA_DEVICE u32 place(u32 panel, u32 row, u32 channel) const {
    const u32 column = panels == 2 ? channel : team.warp * wide + channel;
    return (panels == 2 ? team.warp * panel : 0) + Half::at(row, column);
  }

  KDA_DEVICE void load_elements(u32 to, u32 panel, const abi::Tensor& tensor, i64 origin,
                                int rows) const {
    const u16* data = static_cast<const u16*>(tensor.data) + origin + team.warp * wide;
#pragma unroll 1
    for (u32 i = team.own; i < half_tokens * wide; i += 32) {
      const u32 row = i / wide;
      const u32 column = i % wide;
      ptx::st_shared_u16(to + place(panel, row, column),
                         static_cast<int>(row) < rows ? data[row * tensor.token + column] : u16(0));
    }
  }
};

}  // namespace kda::teams
