// One kernel: pairs of blocks make the chunks' factors in shared memory and walk them at once
// (wgmma, sm_90).  The workspace is a state a pair.
#pragma once

#include <functional>

#include "abi/fused.h"
#include "strategy/strategy.hpp"

namespace kda::strategy {

extern const Strategy fused;

// Into how many segments each sequence of a dense run can be cut so that all have a pair of blocks
// each; 1 where the kernel does not serve segments.
int most_segments(const Problem& problem, const device::Device& device);

// Where segments that begin from nothing leave what is wanted to carry states into them.
using KeepSegments = std::function<void(const compose::Run&, abi::fused::Kept&)>;

// Its kernel for such segments, each of which begins from nothing a little before its first token:
// right only where gates forget (strategy by_gates), so it is to be guarded; or, with `keep`, at
// that token.  And what it is expected to take.
Result<compose::Recipe> compose_fused_segments(const Problem& problem, const device::Device& device,
                                               int segments, const KeepSegments& keep = {});
double fused_segments_microseconds(const Problem& problem, const device::Device& device,
                                   int segments);

}  // namespace kda::strategy
