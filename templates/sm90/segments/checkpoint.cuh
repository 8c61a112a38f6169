// Checkpoints of strategy segments: they lie where segments end, where states are known.
#pragma once

#include "abi/segments.h"
#include "base/slots.cuh"
#include "base/types.cuh"

namespace kda::segments {

// Of a sequence after so many whole segments: its state, if there is a checkpoint and a slot for
// it. `column` is the warp's first V column.
template <abi::Shape shape, class State>
KDA_DEVICE void keep(const abi::segments::Args& args, int n, int head, i64 tokens, State& state,
                     int column) {
  if constexpr (shape.checkpoints) {
    const abi::Outputs& out = args.chain.out;
    if (tokens % out.pool.checkpoint_tokens != 0) return;
    const i64 slot = Slots<shape>::kept(out.pool, out.pool.checkpoints, n,
                                        tokens / out.pool.checkpoint_tokens - 1);
    if (slot != no_slot) state.store(Slots<shape>::at(out, args.chain.in, slot, head), column);
  }
}

}  // namespace kda::segments
