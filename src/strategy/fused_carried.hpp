// Strategy fused's kernel for segments of a dense run's sequences that begin from nothing, and the
// stage that carries the states before them into them (strategy by_gates).
#pragma once

#include "compose/recipe.hpp"
#include "device/device.hpp"
#include "kda/kda.hpp"

namespace kda::strategy {

// Whether it serves a problem that fused serves segments of.
bool serves_carried(const Problem& problem);

// Whether factors of all chunks are kept that states may be carried through.  Else the stages are
// right only where these are forgotten before, and are to be guarded.
bool keeps_all(const Problem& problem, int segments);
// The same of a run, which may be shorter.
bool keeps_all(const Problem& problem, int segments, const Forward& run);

// segments: of each sequence, up to most_segments() (fused.hpp).
Result<compose::Recipe> compose_fused_carried(const Problem& problem, const device::Device& device,
                                              int segments);

// Expected, where others forget states within some 110 chunks; infinite for shorter segments.
double fused_carried_microseconds(const Problem& problem, const device::Device& device,
                                  int segments);

}  // namespace kda::strategy
