// States as an inference engine keeps them: slots of a pool in device memory, named by index.
//
// With Problem::state_pool each sequence of a run starts from the state in one slot and writes its
// final state to one, perhaps the same.  Slots that no index names are neither read nor written.
// Two sequences may write one slot: its contents are then undefined, those of other slots are not.
// A slot that a run writes for one sequence must not be where another starts in that run, as it may
// be read half written.
//
// A sequence is padding where its own slot, indices[n, 0], is negative or not below `slots`, or
// where the slot that it should start from is.  (A negative initial_indices[n] is no padding: the
// sequence starts from zero.)  No state of padding is read or written; its outputs stay as they
// are, or become zero (Problem::zero_padding).  So a CUDA graph of a fixed batch can run a smaller
// one.
#pragma once

#include <cstdint>

namespace kda {

// [N, columns] slot indices in device memory, of Problem::slot_index_type.
struct IndexTable {
  const void* data = nullptr;
  int columns = 1;
  std::int64_t stride = 0;  // elements from a row to the next; 0: columns
};

struct StatePool {
  // Of Forward::initial_state and final_state: [slots, HV, V, K] or [slots, HV, K, V] by
  // Problem::state_layout, each slot contiguous.
  std::int64_t slots = 0;
  std::int64_t stride = 0;  // elements from a slot to the next; 0: contiguous

  // The sequences' slots, [N, columns]; rows past N are not read.  Column 0 is a sequence's own
  // slot: where it starts and where its final state goes.  With Problem::draft_states there is no
  // final state: the state after token t (from 0) goes to indices[n, t], and nowhere where that is
  // negative, not below `slots`, or t is past the columns.
  IndexTable indices{};

  // [N], of the same type, or null; Problem::initial_state only.  Where sequence n starts instead,
  // a cached prefix say; negative: from zero.
  const void* initial_indices = nullptr;

  // [N], of the same type, or null; Problem::draft_states with initial_state only.  How many tokens
  // of the run before were accepted: sequence n starts from indices[n, accepted - 1], the state
  // after the last of them (past the columns: from the last column).  Zero or less: nothing was
  // drafted before, so it starts as without this, from initial_indices[n] if they are given, else
  // from indices[n, 0].
  // Forward::committed_tokens needs no slot a token: it computes accepted tokens again instead.
  const void* num_accepted_tokens = nullptr;

  // The state after the (j + 1) * Problem::checkpoint_tokens first tokens of sequence n goes to the
  // slot checkpoints[n, j] of final_state; none where that is negative, past the pool or past the
  // columns.  A slot that one sequence names twice, for two checkpoints or for one and its own
  // state, may hold parts of both.
  IndexTable checkpoints{};
};

}  // namespace kda
