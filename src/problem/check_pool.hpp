// Whether a run's state pool fits the plan's problem.
#pragma once

#include <cstdint>

#include "kda/kda.hpp"

namespace kda::problem {

// A part of problem::check; forward's other fields have passed it.
Status check_pool(const Problem& problem, const Forward& forward);

// Bytes from the first element of a run's states to past the last; the pool has passed check_pool.
std::uint64_t state_extent(const Problem& problem, const Forward& forward);

// Whether two pools so many bytes apart share nothing although they lie within each other's extent:
// each one's slots stand where the other's strides leave room.
bool slots_interleave(const Problem& problem, const Forward& forward, std::uint64_t apart);

}  // namespace kda::problem
