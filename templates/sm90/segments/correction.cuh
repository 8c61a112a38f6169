// What the warps of the correct stage agree on: sizes, and the rings in shared memory through which
// one gets what another brings.
#pragma once

#include "abi/chunk_wgmma.h"
#include "abi/segments.h"
#include "abi/shape.h"
#include "base/types.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mbarrier.cuh"
#include "sm90/segments/tiles.cuh"
#include "step/state.cuh"
#include "tile/scale.cuh"
#include "tile/shared.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::segments::KernelTuning tune = KDA_TUNING;
constexpr bool gives_up = tune.gives_up != 0;

// What move_rows (chunk_wgmma/rows.cuh) wants to know of a ring: here of rows of o, which are
// corrected where they lie.
struct Correction {
  static constexpr abi::Shape shape = kda::shape;
  static constexpr abi::DType type = shape.qkv_type;
  static constexpr int chunk = tune.chunk;
  static constexpr int chunk_tiles = chunk / 8;
  static constexpr int keys = abi::chunk::factor_keys(shape);
  static constexpr int panels = keys / 64;
  static constexpr int values = shape.value_dim;
  static constexpr int columns = 64;
  static constexpr int consumers = 128;
  static constexpr int row_warps = 2;
  static constexpr int stages = abi::segments::correct_stages(shape, chunk);
  static constexpr bool writes_outputs = true;
  struct Slot {
    int v = 0;
  };
  static constexpr Slot slot = {};

  using Factor = tile::Shared<type, chunk, keys>;     // an image of q~
  using Values = tile::Shared<type, chunk, columns>;  // rows of o
  using State = step::State<shape, 1, keys>;
  using Scale = tile::Scale<type>;
  using Accumulators = float[chunk_tiles][4];

  // A place in a ring of `size`, and how often it has been passed (by parity).
  template <int size>
  struct Place {
    int index = 0;
    u32 parity = 0;

    KDA_DEVICE void next(int count = 1) {
      for (int i = 0; i < count; ++i) {
        if (++index == size) {
          index = 0;
          parity ^= 1;
        }
      }
    }
  };
  using Cursor = Place<stages>;
  using Step = Place<2>;
  static_assert(stages > 2, "the two would be one type");

  // Two steps of the state, or in the place of one or both a ring of q~; rows of o; barriers, full
  // and empty.
  struct Ring {
    static constexpr int step_bytes = abi::segments::step_bytes(shape);
    static constexpr int row_bytes = abi::segments::output_bytes(chunk);

    u32 begin, barriers;

    KDA_DEVICE explicit Ring(void* memory)
        : begin(ptx::shared_address(memory)),
          barriers(begin + 2 * step_bytes + stages * row_bytes) {}
    // Where q~ lies: where the step after the last one will, so that it comes while that is taken;
    // or, where its ring has no room beside a step, in the place of both once they are taken.
    static constexpr bool beside = stages * Factor::bytes <= step_bytes;
    KDA_DEVICE u32 queries(Step next, Cursor c) const {
      return (beside ? at(next) : begin) + c.index * Factor::bytes;
    }
    KDA_DEVICE void wait_for_queries(Step next) const {
      if (beside) {
        wait_empty(next);
      } else {
        drain(next);
      }
    }
    KDA_DEVICE u32 at(Cursor c) const { return begin + 2 * step_bytes + c.index * row_bytes; }
    KDA_DEVICE u32 full(Cursor c) const { return barriers + c.index * 8; }
    KDA_DEVICE u32 empty(Cursor c) const { return barriers + (stages + c.index) * 8; }
    KDA_DEVICE void wait_full(Cursor c) const { ptx::mbarrier_wait(full(c), c.parity); }
    KDA_DEVICE void wait_empty(Cursor c) const { ptx::mbarrier_wait(empty(c), c.parity ^ 1); }
    KDA_DEVICE void release(Cursor c) const { ptx::mbarrier_arrive(empty(c)); }

    KDA_DEVICE u32 at(Step s) const { return begin + s.index * step_bytes; }
    KDA_DEVICE u32 full(Step s) const { return barriers + 2 * stages * 8 + s.index * 16; }
    KDA_DEVICE u32 empty(Step s) const { return full(s) + 8; }
    KDA_DEVICE void wait_full(Step s) const { ptx::mbarrier_wait(full(s), s.parity); }
    KDA_DEVICE void wait_empty(Step s) const { ptx::mbarrier_wait(empty(s), s.parity ^ 1); }
    KDA_DEVICE void release(Step s) const { ptx::mbarrier_arrive(empty(s)); }

    // Until all that was loaded so far has been given back.
    template <int size>
    KDA_DEVICE void drain(Place<size> at) const {
      for (int i = 0; i < size; ++i, at.next()) wait_empty(at);
    }

    KDA_DEVICE void init() const {
      for (Cursor c; c.parity == 0; c.next()) {
        ptx::mbarrier_init(full(c), 1 + 32 * row_warps);
        ptx::mbarrier_init(empty(c), consumers);
      }
      for (Step s; s.parity == 0; s.next()) {
        ptx::mbarrier_init(full(s), 1);
        ptx::mbarrier_init(empty(s), consumers);
      }
      ptx::fence_barrier_init();
    }
  };
};

using Ring = Correction::Ring;
using Cursor = Correction::Cursor;
using Step = Correction::Step;
using Tiles = segments::Tiles<shape>;
constexpr int chunk = Correction::chunk;
constexpr int keys = Correction::keys;
constexpr int panels = Correction::panels;
constexpr int threads = Correction::consumers + 32 * (1 + Correction::row_warps);
using Image = tile::Shared<abi::DType::bf16, keys, keys>;  // of T^T
static_assert(Image::bytes == abi::segments::transition_bytes(shape));
static_assert(Correction::Factor::bytes == abi::segments::query_bytes(shape, chunk));

}  // namespace kda
