// Strategy fused's kernel for segments of a dense run's sequences that begin from nothing, and the
// stage that carries the states before them into them: right where nothing is left of these after
// so many chunks as have their factors kept, so they are to be guarded (strategy by_gates).
#pragma once

#include "compose/recipe.hpp"
#include "device/device.hpp"
#include "kda/kda.hpp"

namespace kda::strategy {

// Whether it serves a problem that fused serves segments of.
bool serves_carried(const Problem& problem);

// segments: of each sequence, up to most_segments() (fused.hpp).  The workspace begins with the
// words of abi::by_gates::LookArgs::weak.
Result<compose::Recipe> compose_fused_carried(const Problem& problem, const device::Device& device,
                                              int segments);

// Expected, where states are forgotten within some 110 chunks; infinite for shorter segments.
double fused_carried_microseconds(const Problem& problem, const device::Device& device,
                                  int segments);

}  // namespace kda::strategy
