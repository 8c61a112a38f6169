// A chunk's raw q, k and g on their way to memory where each warp has a slab of them: by the copy
// engine, or element by element where it does not take the tensors' layout.
#pragma once

#include "ptx/bulk.cuh"
#include "ptx/elect.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_words.cuh"
#include "ptx/tensor_copy.cuh"
#include "sm90/factors/group.cuh"
#include "sm90/slabs/gate.cuh"

namespace kda::slabs {

// A warp's rows of a tensor: a Half, and then the other.
template <class Areas>
KDA_DEVICE u32 rows_of(const Areas& areas, u32 warp) {
  return ptx::shared_address(&areas[warp][0]);
}

struct Load {
  const Scratch& scratch;
  int thread;  // of the group
  u32 barrier;

  // Where the engine takes the tensors, starts it on a place's rows, once the group has done with
  // what stands there; then waits for the barrier and calls finish().  role: of the warp, 0..3.
  template <class Place>
  KDA_DEVICE void start(int role, const abi::factors::RawMaps& maps, const Place& place) const {
    if (!maps.present || place.rows == 0 || !ptx::elect()) return;
    const int qk_head = place.head / shape.group;
    if (role == 0) {
      bring(scratch.k, maps.k, place.token, qk_head, place.map_n());
    } else if (role == 1) {
      bring(scratch.g, maps.g, place.token, place.head, place.map_n());
    } else if (role == 2) {
      bring(scratch.q, maps.q, place.token, qk_head, place.map_n());
    } else {
      ptx::mbarrier_arrive(barrier);
    }
  }

  // Else, some time after start() was called.
  template <class Place>
  KDA_DEVICE void by_hand(const abi::Inputs& in, const Place& place) const {
    load_elements(scratch.k, in.k, place.k_origin(in), place.rows);
    load_elements(scratch.q, in.q, place.q_origin(in), place.rows);
    load_elements(scratch.g, in.g, place.g_origin(in), place.rows);
    __syncwarp();
    if (ptx::elect()) ptx::mbarrier_arrive(barrier);
  }

  // What does not exist becomes zeros in k and q, and no decay in g (closed_gate): the
  // engine brings the tokens that follow.
  KDA_DEVICE void finish(int rows) const {
    if (rows == chunk) [[likely]]
      return;
    const u32 warp = own() / 32;
#pragma unroll 1
    for (u32 i = rows * row_units + own() % 32; i < chunk * row_units; i += 32) {
      const u32 row = i / row_units;
      const u32 at =
          row / half_tokens * Half::bytes + Half::at(row % half_tokens, i % row_units * 8);
      ptx::st_shared_u32x4(rows_of(scratch.k, warp) + at, make_uint4(0, 0, 0, 0));
      ptx::st_shared_u32x4(rows_of(scratch.q, warp) + at, make_uint4(0, 0, 0, 0));
      constexpr u32 x = closed_gate | closed_gate << 16;
      ptx::st_shared_u32x4(rows_of(scratch.g, warp) + at, make_uint4(x, x, x, x));
    }
    __syncwarp();
  }

 private:
  static constexpr int row_units = slab / 8;  // of 16 bytes
  static constexpr int boxes = abi::factors::slabs_a_box(shape) == 4 ? 1 : 4;

  KDA_DEVICE u32 own() const { return static_cast<u32>(thread); }

  // By one thread.
  KDA_DEVICE void bring(const Scratch::Area (&areas)[4], const abi::TensorMap& map, int token,
                        int head, int n) const {
    ptx::fence_async_proxy();
    ptx::mbarrier_arrive_expecting(barrier, 4 * 2 * Half::bytes);
#pragma unroll
    for (int box = 0; box < boxes; ++box) {
      ptx::tensor_load(rows_of(areas, box), map, {token, box, head, n}, barrier);
    }
  }

  KDA_DEVICE void load_elements(const Scratch::Area (&areas)[4], const abi::Tensor& tensor,
                                i64 origin, int rows) const {
    const u32 warp = own() / 32;
    const u16* data = static_cast<const u16*>(tensor.data) + origin + warp * slab;
#pragma unroll 1
    for (u32 i = own() % 32; i < chunk * slab; i += 32) {
      const u32 row = i / slab;
      const u32 column = i % slab;
      ptx::st_shared_u16(rows_of(areas, warp) + row / half_tokens * Half::bytes +
                             Half::at(row % half_tokens, column),
                         static_cast<int>(row) < rows ? data[row * tensor.token + column] : u16(0));
    }
  }
};

}  // namespace kda::slabs
