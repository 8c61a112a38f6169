// The short stage whose blocks bring states to rings in shared memory
// (templates/sm90/recurrent/short.cu).
#pragma once

#include "abi/shape.h"
#include "strategy/strategy.hpp"

namespace kda::strategy {

// Whether it serves the problem; says why not.
Status check_ring(const Problem& problem, const device::Device& device);

// Whether it is expected to be faster than blocks that hold states in registers alone.
bool prefers_ring(const Problem& problem, const device::Device& device);

// shape: of the stage's sequences, which keep no checkpoints.
Result<compose::Stage> ring_stage(const Problem& problem, const abi::Shape& shape,
                                  const device::Device& device, int short_tokens);

}  // namespace kda::strategy
