#include "reference/pooled.hpp"

#include <algorithm>
#include <limits>

namespace kda::reference {
namespace {

bool inside(const Slots& slots, std::int64_t slot) { return slot >= 0 && slot < slots.slots; }

// Scatters states into a pool.
struct Writer {
  const Slots& slots;
  std::int64_t elements;  // a slot
  PooledOutputs& out;

  void write(std::int64_t slot, const double* state) const {
    if (!inside(slots, slot)) return;
    ++out.writers[slot];
    std::copy_n(state, elements, out.pool.begin() + slot * elements);
  }
};

}  // namespace

std::int64_t start_of(const Problem& problem, const Slots& slots, int n) {
  const std::int64_t* own = &slots.indices[static_cast<std::size_t>(n) * slots.columns];
  if (!inside(slots, own[0])) return kPadding;
  if (!problem.initial_state) return kFromZero;
  const std::int64_t accepted =
      slots.num_accepted_tokens.empty() ? 0 : slots.num_accepted_tokens[n];
  std::int64_t start = own[0];
  if (accepted > 0) {
    start = own[std::min<std::int64_t>(accepted, slots.columns) - 1];
  } else if (!slots.initial_indices.empty()) {
    start = slots.initial_indices[n];
    if (start < 0) return kFromZero;
  }
  return inside(slots, start) ? start : kPadding;
}

PooledOutputs pooled(const Inputs& inputs, const std::vector<double>& pool, const Slots& slots,
                     Arithmetic arithmetic) {
  const Problem& p = inputs.problem;
  const std::int64_t elements = std::int64_t{p.value_heads} * p.key_dim * p.value_dim;
  const int N = inputs.sequences();

  Inputs in = inputs;
  in.keep_every = p.draft_states ? 1 : p.checkpoint_tokens;
  in.initial_state.assign(static_cast<std::size_t>(N * elements), 0.0);
  std::vector<std::int64_t> starts;
  for (int n = 0; n < N; ++n) {
    starts.push_back(start_of(p, slots, n));
    if (starts[n] >= 0)
      std::copy_n(pool.begin() + starts[n] * elements, elements,
                  in.initial_state.begin() + n * elements);
  }
  Outputs run = recurrence(in, arithmetic);

  PooledOutputs out{std::move(run.o), pool, std::vector<std::int64_t>(slots.slots, 0)};
  const Writer writer{slots, elements, out};
  std::int64_t kept = 0;
  for (int n = 0; n < N; kept += in.kept_of(n), ++n) {
    if (starts[n] == kPadding) {
      const double o = p.zero_padding ? 0.0 : std::numeric_limits<double>::quiet_NaN();
      const std::int64_t row = std::int64_t{p.value_heads} * p.value_dim;
      std::fill(out.o.begin() + in.cu_seqlens[n] * row, out.o.begin() + in.cu_seqlens[n + 1] * row,
                o);
      continue;
    }
    if (!p.final_state) continue;
    const auto kept_state = [&](std::int64_t i) { return &run.kept[(kept + i) * elements]; };
    const std::int64_t* own = &slots.indices[static_cast<std::size_t>(n) * slots.columns];
    if (p.draft_states) {
      for (std::int64_t t = 0; t < std::min<std::int64_t>(in.kept_of(n), slots.columns); ++t)
        writer.write(own[t], kept_state(t));
      continue;
    }
    for (std::int64_t i = 0; i < std::min<std::int64_t>(in.kept_of(n), slots.checkpoint_columns);
         ++i)
      writer.write(slots.checkpoints[std::size_t(n) * slots.checkpoint_columns + i], kept_state(i));
    writer.write(own[0], &run.final_state[n * elements]);
  }
  return out;
}

}  // namespace kda::reference
