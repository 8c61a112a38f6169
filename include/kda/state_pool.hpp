// States as an inference engine keeps them: slots of a pool in device memory, named by index.
//
// With Problem::state_pool a run starts each sequence from a slot and writes its final state to
// one, in place where both are the same.  Slots that no index names are neither read nor written,
// and what two sequences write to one slot they share stays in that slot.  A slot that a run writes
// for one sequence is not another's to start from in that run: that may find it half written.
//
// A sequence is padding where its own slot, indices[n, 0], is negative or past the pool, or where
// the slot it should start from is (a negative initial_indices[n] names none: it starts from zero):
// no state of it is read or written, and its outputs stay as they are or become zero
// (Problem::zero_padding).  That is how a CUDA graph of a fixed batch runs a smaller one.
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

  // The sequences' own slots.  Column 0: where sequence n starts and where its final state goes.
  // With Problem::draft_states there are more: the state after its token t goes to indices[n, t],
  // and none where that is negative, past the pool or past the columns.
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
