#include "bench/pool.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "problem/problem.hpp"
#include "reference/dtype.hpp"

namespace kda::bench {
namespace {

using reference::Bytes;
using reference::Slots;
using reference::Tensors;

std::size_t slot_bytes(const Problem& p) {
  return static_cast<std::size_t>(problem::slot_elements(p)) * reference::bytes_of(p.state_type);
}

std::int64_t length_of(const Tensors& tensors, int n) {
  return tensors.cu_seqlens[n + 1] - tensors.cu_seqlens[n];
}

}  // namespace

Slots scattered_slots(const Tensors& tensors) {
  const Problem& p = tensors.problem;
  std::int64_t longest = 0;
  for (int n = 0; n < tensors.sequences(); ++n) longest = std::max(longest, length_of(tensors, n));
  Slots out;
  if (p.draft_states) out.columns = static_cast<int>(std::max<std::int64_t>(longest, 1));
  if (p.checkpoint_tokens > 0)
    out.checkpoint_columns =
        static_cast<int>(std::max<std::int64_t>(longest / p.checkpoint_tokens, 1));

  std::int64_t next = 0;
  for (int n = 0; n < tensors.sequences(); ++n) {
    for (int column = 0; column < out.columns; ++column) out.indices.push_back(next++);
    const std::int64_t kept =
        p.checkpoint_tokens > 0 ? length_of(tensors, n) / p.checkpoint_tokens : 0;
    for (int column = 0; column < out.checkpoint_columns; ++column)
      out.checkpoints.push_back(column < kept ? next++ : -1);
  }
  out.slots = next;
  std::vector<std::int64_t> order(static_cast<std::size_t>(next));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  for (auto* table : {&out.indices, &out.checkpoints})
    for (std::int64_t& slot : *table)
      if (slot >= 0) slot = order[static_cast<std::size_t>(slot)];
  return out;
}

Bytes pool_of(const Tensors& tensors, const Slots& slots) {
  const std::size_t state = slot_bytes(tensors.problem);
  Bytes pool(static_cast<std::size_t>(slots.slots) * state);
  for (int n = 0; n < tensors.sequences() && !tensors.initial_state.empty(); ++n)
    std::memcpy(&pool[reference::start_of(tensors.problem, slots, n) * state],
                &tensors.initial_state[n * state], state);
  return pool;
}

Bytes final_states(const Tensors& tensors, const Slots& slots, const Bytes& pool) {
  const std::size_t state = slot_bytes(tensors.problem);
  Bytes out(tensors.sequences() * state);
  for (int n = 0; n < tensors.sequences(); ++n) {
    const std::int64_t last =
        tensors.problem.draft_states ? std::max<std::int64_t>(length_of(tensors, n), 1) - 1 : 0;
    const std::int64_t slot = slots.indices[static_cast<std::size_t>(n * slots.columns + last)];
    std::memcpy(&out[n * state], &pool[slot * state], state);
  }
  return out;
}

Bytes index_bytes(const Problem& problem, const std::vector<std::int64_t>& indices) {
  const bool narrow = problem.slot_index_type == Index::i32;
  const std::vector<std::int32_t> narrowed(indices.begin(), indices.end());
  Bytes bytes(indices.size() * (narrow ? 4 : 8));
  if (!bytes.empty())
    std::memcpy(bytes.data(), narrow ? static_cast<const void*>(narrowed.data()) : indices.data(),
                bytes.size());
  return bytes;
}

}  // namespace kda::bench
