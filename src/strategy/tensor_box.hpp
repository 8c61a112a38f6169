// Tensors that a kernel copies box by box (abi/tensor_map.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "abi/shape.h"
#include "abi/tensors.h"
#include "base/tensor_box.hpp"
#include "compose/recipe.hpp"
#include "kda/kda.hpp"

namespace kda::strategy {

// What is in the tensor, in elements of 16 bits.
struct Extent {
  std::int64_t channels = 0, heads = 0, tokens = 0, sequences = 0;
};

// Boxes of some slabs of so many channels, and so many tokens, of one sequence and head; none where
// the layout is not the copy engine's: all rows on 16 bytes and apart, fewer than 2^31 tokens.
struct Slabs {
  int channels = 0;  // of one
  int count = 0;     // in a box
};
std::optional<TensorBox> box_of(const abi::Tensor& tensor, const Extent& extent, const Slabs& slabs,
                                int tokens);

// Of a run's rows of so many heads and channels, as long as its longest sequence, or of a pack
// whole.
Extent extent_of(const Problem& problem, const abi::Inputs& in, int heads, int channels);

// A run's v and o, 64 columns and so many tokens a box; both or none.
struct RowBoxes {
  TensorBox v, o;
};
std::optional<RowBoxes> boxes_of_rows(const Problem& problem, const abi::Inputs& in,
                                      const abi::Outputs& out, int tokens);

// Sets a launch's arguments, whose RowMaps are `rows`, and the maps where there are boxes.
template <class Args>
void set_with_rows(compose::Launch& launch, Args& args, const std::optional<RowBoxes>& rows) {
  args.rows.present = rows.has_value();
  launch.set(args);
  if (!rows) return;
  launch.add_map(offsetof(Args, rows.v), rows->v);
  launch.add_map(offsetof(Args, rows.o), rows->o);
}

// The slots of a run's pool, in boxes of a warp's V columns (abi/state_box.h); of [V, K] states.
std::optional<TensorBox> box_of_states(const abi::Shape& shape, const abi::Inputs& in,
                                       const abi::Outputs& out);

}  // namespace kda::strategy
