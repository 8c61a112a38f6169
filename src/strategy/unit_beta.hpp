// A beta that is given without a sigmoid as if it were at most 1, by the strategies which are fast
// where it is; and once more, by chunk_wgmma, where a run is found to have another.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {

extern const Strategy unit_beta;

}  // namespace kda::strategy
