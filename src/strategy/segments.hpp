// Strategy chunk_wgmma with each sequence cut into segments: few heads, long sequences.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {

// Packs of up to so many sequences are prepared by groups that walk; since they walk over the tiles
// that exist (sm90/factors/pack_walk.cuh) of more no time has been taken.
constexpr int kFewSequences = 8;

extern const Strategy segments;

}  // namespace kda::strategy
