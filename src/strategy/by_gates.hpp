// A few long sequences in segments that go at once.  Two ways: by gates that forget within some
// tokens segments are independent; else another strategy's; each run finds out on the device.  Long
// segments go one way under all gates: states are carried into them (fused_carried.hpp).
#pragma once

#include "strategy/strategy.hpp"

namespace kda::strategy {

extern const Strategy by_gates;

// Whether it is expected to take less than a strategy that was measured, by the tuning of that or
// by its default, and the other way's strategy is that one.
bool prefers_by_gates(const Problem& problem, const device::Device& device,
                      const Strategy& measured, const tunable::Values& tuning);

}  // namespace kda::strategy
