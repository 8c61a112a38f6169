// What strategy segments is expected to cost; of a complete problem.
#pragma once

#include "abi/segments.h"
#include "device/device.hpp"
#include "kda/kda.hpp"

namespace kda::strategy::segments_cost {

using Tuning = abi::segments::Tuning;

// Whether checkpoints lie where segments end, as they must.
bool keeps_checkpoints(const Problem& problem, const Tuning& tuning);

// Infinite where they do not.  With gates and keys that keep every transition alive to its end, as
// nobody knows when it may be given up (measured on an H200).
double microseconds(const Problem& problem, const device::Device& device, const Tuning& tuning);

// The share of that which runs take whose gates forget.
double forgetting_share(const Problem& problem, const Tuning& tuning);

// The mean of runs whose gates forget and of those whose do not, as often as gates.hpp expects
// them.
double expected_microseconds(const Problem& problem, const device::Device& device,
                             const Tuning& tuning);

}  // namespace kda::strategy::segments_cost
