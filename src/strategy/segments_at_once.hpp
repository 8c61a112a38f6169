// Strategy segments with prepare beside the walk: a dense run's sequences in so many segments,
// alike but for the last ones, and states carried into them (src/README.md).
#pragma once

#include "abi/segments.h"
#include "compose/recipe.hpp"
#include "device/device.hpp"
#include "kda/kda.hpp"
#include "strategy/chunk_factors.hpp"

namespace kda::strategy::segments_at_once {

using Tuning = abi::segments::Tuning;

// Blocks of the walk.
ChainBlocks chain_blocks(const Problem& problem, const device::Device& device,
                         const Tuning& tuning);

// ok, or unsupported where segments are not walked beside prepare.
Status check(const Problem& problem, const device::Device& device, const Tuning& tuning);

// Of what `segments` serves, by a tuning that has passed check(); `values` are what it is made of.
Result<compose::Recipe> compose_recipe(const Problem& problem, const device::Device& device,
                                       const Tuning& tuning, const tunable::Values& values);

}  // namespace kda::strategy::segments_at_once
