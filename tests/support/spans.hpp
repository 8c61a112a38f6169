// Inputs that change from span to span of 1 to 800 tokens, each head for itself: gates that stay
// open and gates that clear, in some channels or in all; keys and queries of one channel, of one
// direction or of any; values that are large, next to nothing, or of one V column.
#pragma once

#include <cstdint>

#include "reference/tensors.hpp"
#include "support/trial.hpp"

namespace kda::test {

// Of a completed trial with as many key heads as value heads; A_log and dt_bias are zeros.  Rows of
// q and k have unit norm.
reference::Tensors spans(const Trial& trial, std::uint64_t seed);

}  // namespace kda::test
