// What strategy chunk_wgmma is expected to cost, and the blocks that it has; of a complete problem.
#pragma once

#include <cstdint>

#include "abi/chunk_wgmma.h"
#include "device/device.hpp"
#include "kda/kda.hpp"
#include "strategy/chunk_factors.hpp"

namespace kda::strategy::chunk_wgmma_cost {

using Tuning = abi::chunk_wgmma::Tuning;

// Blocks that share V.
int shards_of(const Problem& problem, const Tuning& tuning);

// A block a sequence, value head and shard.
std::int64_t blocks_of(const Problem& problem, const Tuning& tuning);

// Blocks of the recurrence, of a run of so many sequences.  Beside a stage of short sequences
// blocks find the long ones, and all must begin at once, for that stage begins when they all have;
// at once with prepare as many sequences as fit half of the device.
ChainBlocks chain_blocks(const Problem& problem, const device::Device& device,
                         const Tuning& tuning);

// Whether groups beside chains bring their next tiles into the L2.
bool prepares_ahead(const Problem& problem, const device::Device& device, Tuning tuning);

// Whether factors that have left the L2 come back about as fast as chains want them: from an H200's
// memory, not from an H100's.
bool memory_hides(const device::Device& device);

// The default of Tuning::preparers where both stages run at once.
int preparers_of(const Problem& problem, const device::Device& device, Tuning tuning);

// Of a mixed pack's prefill alone, both stages at once beside a stage of short sequences.
double long_microseconds(const Problem& problem, const device::Device& device,
                         const Tuning& tuning);

// Of a run.
double microseconds(const Problem& problem, const device::Device& device, const Tuning& tuning);

}  // namespace kda::strategy::chunk_wgmma_cost
