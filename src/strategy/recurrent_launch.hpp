// How the kernels of strategy recurrent are launched: blocks over sequences, value heads and slices
// of V.
#pragma once

#include <cstdint>
#include <functional>

#include "abi/recurrent.h"
#include "strategy/strategy.hpp"

namespace kda::strategy {

// Of the largest run; blocks_of counts a block a sequence.
std::int64_t blocks_of(const Problem& problem, const abi::recurrent::Geometry& geometry);
Status check_grid(const Problem& problem, const abi::recurrent::Geometry& geometry);

// Sequences that a block takes, of a run of so many blocks if it took one.
using SequencesABlock = std::int64_t (*)(std::int64_t blocks);

// A stage's grid and arguments.
std::function<void(const compose::Run&, compose::Launch&)> bind_sequences(
    const Problem& problem, const abi::recurrent::Geometry& geometry, SequencesABlock each);

}  // namespace kda::strategy
