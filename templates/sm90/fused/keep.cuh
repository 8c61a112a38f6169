// A part's checkpoints, chunk by chunk.  As base/slots.cuh counts them, but in fewer registers.
#pragma once

#include "base/slots.cuh"
#include "ptx/load_if.cuh"
#include "sm90/factors/group.cuh"

namespace kda::fused {

class Keep {
  using Stored = index_storage<shape.slot_index_type>;

 public:
  // n: the sequence; first: its chunk that comes next.
  KDA_DEVICE void begin(const abi::StatePool& pool, int n, int first) {
    if constexpr (shape.checkpoints) {
      column_ = first / every(pool);
      until_ = every(pool) - first % every(pool);
      fetch(pool, n);
    }
  }

  // Whether one is due; asked after each whole chunk.
  KDA_DEVICE bool is_due() { return --until_ == 0; }

  // Where that goes, or no_slot.
  KDA_DEVICE i64 slot(const abi::StatePool& pool) const {
    return Slots<shape>::is_inside(pool, next_) ? static_cast<i64>(next_) : no_slot;
  }

  // On to the one after it.
  KDA_DEVICE void next(const abi::StatePool& pool, int n) {
    until_ = every(pool);
    ++column_;
    fetch(pool, n);
  }

 private:
  static KDA_DEVICE int every(const abi::StatePool& pool) { return pool.checkpoint_tokens / chunk; }

  KDA_DEVICE void fetch(const abi::StatePool& pool, int n) {
    const abi::IndexTable& table = pool.checkpoints;
    next_ = no_slot;
    const i64 at = n * table.stride + column_;
    ptx::ld_global_if(next_, static_cast<const Stored*>(table.data) + at, column_ < table.columns);
  }

  int until_ = 0;  // chunks
  int column_ = 0;
  Stored next_ = 0;  // as it lies in the table, that nothing waits for it before its turn
};

}  // namespace kda::fused
