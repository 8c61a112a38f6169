// Where the states of a sequence lie: row n of a plain tensor, or slots of a pool
// (include/kda/state_pool.hpp says which).
#pragma once

#include "abi/shape.h"
#include "abi/tensors.h"
#include "base/element.cuh"
#include "base/types.cuh"

namespace kda {

constexpr i64 no_slot = -1;

template <abi::Index type>
struct index {
  using storage = i64;
};
template <>
struct index<abi::Index::i32> {
  using storage = int;
};
template <abi::Index type>
using index_storage = typename index<type>::storage;

template <abi::Index type>
KDA_DEVICE i64 load_index(const void* data, i64 at) {
  return static_cast<const index_storage<type>*>(data)[at];
}

template <abi::Shape shape>
struct Slots {
  static constexpr i64 head_elements = static_cast<i64>(shape.key_dim) * shape.value_dim;
  using Storage = storage<shape.state_type>;

  bool padding = false;  // read and write nothing of this sequence
  i64 from = 0;          // where it starts; no_slot: from zero
  i64 own = 0;           // where its final state goes

  KDA_DEVICE Slots(const abi::Outputs& out, int n) : from(n), own(n) {
    if constexpr (shape.state_pool) {
      const abi::StatePool& pool = out.pool;
      const i64 row = n * pool.indices.stride;
      own = load(pool.indices.data, row);
      from = own;
      if constexpr (shape.initial_state) {
        i64 accepted = 0;
        if constexpr (shape.draft_states) {
          if (pool.num_accepted_tokens != nullptr) accepted = load(pool.num_accepted_tokens, n);
        }
        bool from_zero = false;
        if (accepted > 0) {
          const i64 last = accepted < pool.indices.columns ? accepted : pool.indices.columns;
          from = load(pool.indices.data, row + last - 1);
        } else if (pool.initial_indices != nullptr) {
          from = load(pool.initial_indices, n);
          from_zero = from < 0;
        }
        padding = !is_inside(pool, own) || (!from_zero && !is_inside(pool, from));
        if (from_zero) from = no_slot;
      } else {
        padding = !is_inside(pool, own);
      }
    }
  }

  // Else the sequence starts from zero.
  KDA_DEVICE bool has_start() const {
    return shape.initial_state && (!shape.state_pool || from != no_slot);
  }

  // Column `column` of sequence n in a table; no_slot where nothing is to be kept.
  static KDA_DEVICE i64 kept(const abi::StatePool& pool, const abi::IndexTable& table, int n,
                             i64 column) {
    if (column >= table.columns) return no_slot;
    const i64 slot = load(table.data, n * table.stride + column);
    return is_inside(pool, slot) ? slot : no_slot;
  }

  // A head's state: where it starts, and in a slot to be written.
  KDA_DEVICE const Storage* start(const abi::Outputs& out, const abi::Inputs& in, int head) const {
    return static_cast<const Storage*>(out.initial_state) + offset(out, in, from, head);
  }
  static KDA_DEVICE Storage* at(const abi::Outputs& out, const abi::Inputs& in, i64 slot,
                                int head) {
    return static_cast<Storage*>(out.final_state) + offset(out, in, slot, head);
  }
  // And in a plain tensor of them, a row a sequence.
  static KDA_DEVICE i64 in_row(const abi::Inputs& in, int n, int head) {
    return (static_cast<i64>(n) * in.value_heads + head) * head_elements;
  }

  static KDA_DEVICE i64 load(const void* data, i64 at) {
    return load_index<shape.slot_index_type>(data, at);
  }
  static KDA_DEVICE bool is_inside(const abi::StatePool& pool, i64 slot) {
    return static_cast<u64>(slot) < static_cast<u64>(pool.slots);
  }

 private:
  static KDA_DEVICE i64 offset(const abi::Outputs& out, const abi::Inputs& in, i64 slot, int head) {
    const i64 stride = shape.state_pool ? out.pool.stride : in.value_heads * head_elements;
    return slot * stride + head * head_elements;
  }
};

// Counts a sequence's steps of `step_tokens` to its checkpoints.  A checkpoint's slot is loaded
// when the one before it is reached, so that none waits for it.
template <abi::Shape shape>
struct Checkpoints {
  const abi::StatePool& pool;
  i64 row = 0;
  // As it lies in the table, that nothing waits for it before its turn.
  index_storage<shape.slot_index_type> next = no_slot;
  int column = 0;
  int every = 0;  // steps
  int until = 0;

  // first: the token of the sequence that the next step starts with.
  KDA_DEVICE Checkpoints(const abi::StatePool& states, int n, int step_tokens, i64 first = 0)
      : pool(states) {
    if constexpr (shape.checkpoints) {
      row = n * states.checkpoints.stride;
      column = static_cast<int>(first / states.checkpoint_tokens);
      every = states.checkpoint_tokens / step_tokens;
      until = every - static_cast<int>(first % states.checkpoint_tokens) / step_tokens;
      fetch();
    }
  }

  // After each whole step: where the state goes now, or no_slot.
  KDA_DEVICE i64 step() {
    if (--until > 0) return no_slot;
    until = every;
    const i64 slot = next;
    ++column;
    fetch();
    return Slots<shape>::is_inside(pool, slot) ? slot : no_slot;
  }

 private:
  KDA_DEVICE void fetch() {
    next = no_slot;
    if (column < pool.checkpoints.columns) {
      using Stored = index_storage<shape.slot_index_type>;
      next = static_cast<const Stored*>(pool.checkpoints.data)[row + column];
    }
  }
};

// What a padding sequence may leave in `columns` of its outputs, by a block of `threads`.
template <abi::DType type>
KDA_DEVICE void write_zeros(storage<type>* o, i64 token, i64 length, int columns, int threads) {
  for (i64 t = 0; t < length; ++t) {
    for (int i = static_cast<int>(threadIdx.x); i < columns; i += threads) {
      o[t * token + i] = storage<type>(0);
    }
  }
}

}  // namespace kda
