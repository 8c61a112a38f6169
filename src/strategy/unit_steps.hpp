// A beta that is given without a sigmoid, and q and k that the kernels do not normalise, as if no
// step of the delta rule were more than one (beta at most 1, keys of unit length), by the
// strategies which are fast where that is so; and once more, by chunk_wgmma, where a run is found
// to have another.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {

extern const Strategy unit_steps;

}  // namespace kda::strategy
