// One kernel: pairs of blocks make the chunks' factors in shared memory and walk them at once
// (wgmma, sm_90).  The workspace is a state a pair.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {

extern const Strategy fused;

}  // namespace kda::strategy
