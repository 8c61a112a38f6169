// Two ways for a few long sequences: by gates that forget within some tokens their segments are
// independent and go at once; else another strategy's.  Each run finds out on the device.
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {

extern const Strategy by_gates;

// Whether it is expected to take less than a strategy that was measured, by the tuning of that or
// by its default, and is one that its runs may go by.
bool prefers_by_gates(const Problem& problem, const device::Device& device,
                      const Strategy& measured, const tunable::Values& tuning);

}  // namespace kda::strategy
