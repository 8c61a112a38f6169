// Strategy chunk_wgmma with each sequence cut into segments: few heads, long sequences.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {

// Packs of up to so many sequences are prepared by groups that walk.  They look at the chunks that
// each sequence would have if it were as long as the longest: of more sequences, for too long.
constexpr int kFewSequences = 8;

extern const Strategy segments;

}  // namespace kda::strategy
