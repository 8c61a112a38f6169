// A state pool for a problem that wants one: its slots scattered, its states those of plain
// tensors.
#pragma once

#include "reference/pooled.hpp"
#include "reference/tensors.hpp"

namespace kda::bench {

// Every sequence's slots, in no order: a column a token where drafts are kept, and checkpoints.
reference::Slots scattered_slots(const reference::Tensors& tensors);

// [slots, ...]: each initial state in the slot its sequence starts from, zeros elsewhere.
reference::Bytes pool_of(const reference::Tensors& tensors, const reference::Slots& slots);

// The final states of the sequences, out of the pool, as plain final_state is.
reference::Bytes final_states(const reference::Tensors& tensors, const reference::Slots& slots,
                              const reference::Bytes& pool);

// Indices as Problem::slot_index_type has them.
reference::Bytes index_bytes(const Problem& problem, const std::vector<std::int64_t>& indices);

}  // namespace kda::bench
