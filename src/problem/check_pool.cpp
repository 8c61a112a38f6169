#include "problem/check_pool.hpp"

#include <limits>

#include "abi/dtype.h"
#include "problem/problem.hpp"
#include "problem/refuse.hpp"

namespace kda::problem {

namespace {

int state_bytes(const Problem& p) { return abi::bytes_of(static_cast<abi::DType>(p.state_type)); }

std::int64_t stride_of(const Problem& p, const StatePool& pool) {
  return pool.stride == 0 ? slot_elements(p) : pool.stride;
}

bool is_empty(const StatePool& pool) {
  return pool.slots == 0 && pool.stride == 0 && pool.indices.data == nullptr &&
         pool.initial_indices == nullptr && pool.num_accepted_tokens == nullptr &&
         pool.checkpoints.data == nullptr;
}

Status check_size(const Problem& p, const StatePool& pool) {
  if (pool.slots < 1) return refuse_argument("pool.slots = {}; it must be at least 1", pool.slots);
  const std::int64_t slot = slot_elements(p);
  if (pool.stride != 0 && pool.stride < slot) {
    return refuse_argument(
        "pool.stride = {} makes slots overlap; at least {} does not (0: contiguous)", pool.stride,
        slot);
  }
  const std::int64_t room = std::numeric_limits<std::int64_t>::max() / state_bytes(p) - slot;
  if (pool.slots > 1 && stride_of(p, pool) > room / (pool.slots - 1)) {
    return refuse_argument(
        "pool.slots = {} reach past 63 bits of address with pool.stride = {} elements; with that "
        "stride {} slots do not",
        pool.slots, stride_of(p, pool), room / stride_of(p, pool) + 1);
  }
  return {};
}

int index_bytes(const Problem& p) { return p.slot_index_type == Index::i32 ? 4 : 8; }

Status check_indices(const Problem& p, const char* name, const void* data) {
  const int bytes = index_bytes(p);
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address % static_cast<unsigned>(bytes) == 0) return {};
  return refuse_argument("pool.{} = {:#x} is not aligned to its element of {} bytes", name, address,
                         bytes);
}

Status check_table(const Problem& p, const char* name, const IndexTable& table, int sequences) {
  if (table.data == nullptr) return refuse_argument("pool.{}.data is null", name);
  if (table.columns < 1) {
    return refuse_argument("pool.{}.columns = {}; it must be at least 1", name, table.columns);
  }
  if (table.stride != 0 && table.stride < table.columns) {
    return refuse_argument("pool.{}.stride = {} is less than columns = {} (0: contiguous)", name,
                           table.stride, table.columns);
  }
  const std::int64_t room =
      std::numeric_limits<std::int64_t>::max() / index_bytes(p) - table.columns;
  if (sequences > 1 && table.stride > room / (sequences - 1)) {
    return refuse_argument(
        "pool.{}.stride = {} reaches past 63 bits of address; with {} sequences {} does not", name,
        table.stride, sequences, room / (sequences - 1));
  }
  return check_indices(p, name, table.data);
}

// Tables that the problem does not name would be ignored in silence.
Status check_unwanted(const Problem& p, const StatePool& pool) {
  if (!p.initial_state && pool.initial_indices != nullptr) {
    return refuse_argument(
        "pool.initial_indices is given, but Problem::initial_state = false; make the plan with it, "
        "or pass null");
  }
  if (!p.draft_states && pool.num_accepted_tokens != nullptr) {
    return refuse_argument(
        "pool.num_accepted_tokens is given, but Problem::draft_states = false; make the plan with "
        "it, or pass null");
  }
  if (!p.initial_state && pool.num_accepted_tokens != nullptr) {
    return refuse_argument(
        "pool.num_accepted_tokens is given, but Problem::initial_state = false: it says which "
        "state to start from; make the plan with it, or pass null");
  }
  if (p.checkpoint_tokens == 0 && pool.checkpoints.data != nullptr) {
    return refuse_argument(
        "pool.checkpoints is given, but Problem::checkpoint_tokens = 0; make the plan with them, "
        "or pass null");
  }
  return {};
}

}  // namespace

Status check_pool(const Problem& problem, const Forward& forward) {
  const StatePool& pool = forward.pool;
  if (!problem.state_pool) {
    if (is_empty(pool)) return {};
    return refuse_argument(
        "pool is given, but Problem::state_pool = false; make the plan with it, or leave it empty");
  }
  if (Status status = check_unwanted(problem, pool); !status) return status;
  if (Status status = check_size(problem, pool); !status) return status;
  if (Status status = check_table(problem, "indices", pool.indices, forward.sequences); !status)
    return status;
  if (problem.checkpoint_tokens > 0) {
    if (Status status = check_table(problem, "checkpoints", pool.checkpoints, forward.sequences);
        !status) {
      return status;
    }
  }
  if (Status status = check_indices(problem, "initial_indices", pool.initial_indices); !status) {
    return status;
  }
  return check_indices(problem, "num_accepted_tokens", pool.num_accepted_tokens);
}

bool slots_interleave(const Problem& problem, const Forward& forward, std::uint64_t apart) {
  if (!problem.state_pool || forward.pool.slots < 2) return false;  // one lies between no others
  const auto bytes = static_cast<std::uint64_t>(state_bytes(problem));
  const std::uint64_t slot = static_cast<std::uint64_t>(slot_elements(problem)) * bytes;
  const std::uint64_t stride = static_cast<std::uint64_t>(stride_of(problem, forward.pool)) * bytes;
  const std::uint64_t past = apart % stride;  // behind the start of one of the other's slots
  return past >= slot && stride - past >= slot;
}

std::uint64_t state_extent(const Problem& problem, const Forward& forward) {
  const auto slot = static_cast<std::uint64_t>(slot_elements(problem));
  const auto bytes = static_cast<std::uint64_t>(state_bytes(problem));
  if (!problem.state_pool) return slot * static_cast<unsigned>(forward.sequences) * bytes;
  const auto stride = static_cast<std::uint64_t>(stride_of(problem, forward.pool));
  return ((static_cast<std::uint64_t>(forward.pool.slots) - 1) * stride + slot) * bytes;
}

}  // namespace kda::problem
