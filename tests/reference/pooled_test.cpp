#include "reference/pooled.hpp"

#include "problems.hpp"
#include "reference/error.hpp"
#include "reference/inputs.hpp"
#include "support/catch.hpp"

using namespace kda;
using namespace kda::reference;

namespace {

constexpr int kElements = 2 * 8 * 5;  // a slot: HV * K * V

Problem pooled_problem() {
  Problem p = small_problem(1, 2, 8, 5);
  p.state_pool = true;
  return p;
}

Inputs some_inputs(const Problem& p, const std::vector<std::int64_t>& cu_seqlens) {
  return reference_inputs(make_tensors(p, cu_seqlens.back(), cu_seqlens));
}

// Slot s holds the values s + 1, s + 1.001, ...
std::vector<double> some_pool(int slots) {
  std::vector<double> pool;
  for (int s = 0; s < slots; ++s)
    for (int i = 0; i < kElements; ++i) pool.push_back(s + 1 + 0.001 * i);
  return pool;
}

std::vector<double> slot(const std::vector<double>& pool, int s) {
  return {pool.begin() + s * kElements, pool.begin() + (s + 1) * kElements};
}

// One sequence [from, to) of `in` by the plain recurrence.
Outputs plain(const Inputs& in, std::int64_t from, std::int64_t to, std::vector<double> start) {
  Inputs one = in;
  one.cu_seqlens = {from, to};
  one.initial_state = std::move(start);
  return recurrence(one);
}

bool near(const std::vector<double>& x, const std::vector<double>& y) {
  const Error error = error_of(x, y, kElements);
  return x.size() == y.size() && error.rel_l2 < 1e-14 && error.not_finite == 0;
}

}  // namespace

TEST_CASE("states kept inside a sequence are those of its prefixes") {
  Inputs in = some_inputs(small_problem(1, 2, 8, 37), {0, 150, 150, 155, 219});
  in.keep_every = GENERATE(1, 7, 64);
  const Outputs out = recurrence(in);
  const std::size_t state = 2 * 8 * 37;
  std::size_t kept = 0;
  for (int n = 0; n < in.sequences(); ++n)
    for (std::int64_t i = 1; i <= in.kept_of(n); ++i, ++kept) {
      if (i % 40 > 2) continue;  // a few suffice
      const std::vector<double> start(in.initial_state.begin() + n * state,
                                      in.initial_state.begin() + (n + 1) * state);
      const std::int64_t begin = in.cu_seqlens[n];
      const Outputs prefix = plain(in, begin, begin + i * in.keep_every, start);
      const std::vector<double> found(out.kept.begin() + kept * state,
                                      out.kept.begin() + (kept + 1) * state);
      CHECK(error_of(found, prefix.final_state, 37).rel_l2 < 1e-14);
    }
  CHECK(out.kept.size() == kept * state);
}

TEST_CASE("sequences start from their slots and end in them; others stay") {
  const Inputs in = some_inputs(pooled_problem(), {0, 3, 4, 4, 9});
  const std::vector<double> pool = some_pool(7);
  Slots slots{.slots = 7, .indices = {5, 0, 2, 3}};
  PooledOutputs out = pooled(in, pool, slots);
  CHECK(near(slot(out.pool, 5), plain(in, 0, 3, slot(pool, 5)).final_state));
  CHECK(near(slot(out.pool, 0), plain(in, 3, 4, slot(pool, 0)).final_state));
  CHECK(slot(out.pool, 2) == slot(pool, 2));  // no tokens
  CHECK(near(slot(out.pool, 3), plain(in, 4, 9, slot(pool, 3)).final_state));
  for (const int s : {1, 4, 6}) CHECK(slot(out.pool, s) == slot(pool, s));
  CHECK(out.writers == std::vector<std::int64_t>{1, 0, 1, 1, 0, 1, 0});

  // A cached prefix, and a sequence from zero.
  slots.initial_indices = {6, 6, 4, -9};
  out = pooled(in, pool, slots);
  CHECK(near(slot(out.pool, 5), plain(in, 0, 3, slot(pool, 6)).final_state));
  CHECK(near(slot(out.pool, 0), plain(in, 3, 4, slot(pool, 6)).final_state));
  CHECK(slot(out.pool, 2) == slot(pool, 4));
  CHECK(near(slot(out.pool, 3), plain(in, 4, 9, {}).final_state));
  CHECK(slot(out.pool, 6) == slot(pool, 6));
}

TEST_CASE("padding reads and writes nothing; its outputs stay or become zero") {
  Problem p = pooled_problem();
  p.zero_padding = GENERATE(false, true);
  const Inputs in = some_inputs(p, {0, 2, 4, 6, 8});
  const std::vector<double> pool = some_pool(3);
  // Negative, past the pool, fine, started past the pool.
  const Slots slots{.slots = 3, .indices = {-1, 3, 1, 2}, .initial_indices = {0, 0, 0, 3}};
  const PooledOutputs out = pooled(in, pool, slots);
  CHECK(out.writers == std::vector<std::int64_t>{0, 1, 0});
  CHECK(slot(out.pool, 0) == slot(pool, 0));
  CHECK(slot(out.pool, 2) == slot(pool, 2));
  for (int t = 0; t < 8; ++t) {
    const double o = out.o[t * 10];
    CAPTURE(t);
    if (t / 2 == 2)
      CHECK((std::isfinite(o) && o != 0));
    else
      CHECK((p.zero_padding ? o == 0 : std::isnan(o)));
  }
}

TEST_CASE("drafts keep the state after every token and start from the last accepted one") {
  Problem p = pooled_problem();
  p.draft_states = true;
  const Inputs in = some_inputs(p, {0, 3, 6, 9, 12, 12});
  const std::vector<double> pool = some_pool(16);
  const Slots slots{.slots = 16,
                    .columns = 3,
                    .indices = {0, 1, 2, 3, 4, 5, 6, -1, 8, 9, 10, 99, 12, 13, 14},
                    .num_accepted_tokens = {1, 3, 2, 0, 7}};
  const PooledOutputs out = pooled(in, pool, slots);
  for (int t = 0; t < 3; ++t) {
    CHECK(near(slot(out.pool, t), plain(in, 0, t + 1, slot(pool, 0)).final_state));
    CHECK(near(slot(out.pool, 3 + t), plain(in, 3, 4 + t, slot(pool, 5)).final_state));
    // Zero accepted: from column 0, as one accepted.  Past the pool: not kept.
    if (t < 2) CHECK(near(slot(out.pool, 9 + t), plain(in, 9, 10 + t, slot(pool, 9)).final_state));
  }
  // Sequence 2 would start from a negative slot: padding.  Sequence 4 has no token.
  for (const int s : {6, 7, 8, 11, 12, 13, 14, 15}) CHECK(slot(out.pool, s) == slot(pool, s));
  CHECK(std::isnan(out.o[6 * 10]));

  // Zero accepted beside a cached prefix starts from that.
  Slots cached = slots;
  cached.initial_indices = {15, 15, 15, 15, 15};
  const PooledOutputs resumed = pooled(in, pool, cached);
  CHECK(near(slot(resumed.pool, 9), plain(in, 9, 10, slot(pool, 15)).final_state));
  CHECK(near(slot(resumed.pool, 0), slot(out.pool, 0)));

  CHECK(start_of(p, slots, 1) == 5);
  CHECK(start_of(p, slots, 2) == kPadding);
  CHECK(start_of(p, slots, 4) == 14);  // 7 accepted of 3 columns
}

TEST_CASE("a slot's final state knows the committed tokens alone") {
  const Problem p = pooled_problem();
  const Inputs all = some_inputs(p, {0, 3, 6, 9, 9});
  Inputs in = all;
  in.committed_tokens = {-2, 1, 7, 4};
  const std::vector<double> pool = some_pool(6);
  const Slots slots{.slots = 6, .indices = {0, 1, 2, 3}, .initial_indices = {4, 1, 2, 3}};
  const PooledOutputs out = pooled(in, pool, slots);
  CHECK(slot(out.pool, 0) == slot(pool, 4));
  CHECK(near(slot(out.pool, 1), plain(all, 3, 4, slot(pool, 1)).final_state));
  CHECK(near(slot(out.pool, 2), plain(all, 6, 9, slot(pool, 2)).final_state));
  for (const int s : {3, 4, 5}) CHECK(slot(out.pool, s) == slot(pool, s));
  CHECK(out.o == pooled(all, pool, slots).o);
}

TEST_CASE("checkpoints are states that a run can resume from") {
  Problem p = pooled_problem();
  p.checkpoint_tokens = 64;
  const Inputs in = some_inputs(p, {0, 150, 214, 220});
  const std::vector<double> pool = some_pool(9);
  const Slots slots{
      .slots = 9, .indices = {0, 1, 2}, .checkpoint_columns = 2, .checkpoints = {3, 4, 5, 6, 7, 8}};
  const PooledOutputs out = pooled(in, pool, slots);
  CHECK(near(slot(out.pool, 3), plain(in, 0, 64, slot(pool, 0)).final_state));
  CHECK(near(slot(out.pool, 4), plain(in, 0, 128, slot(pool, 0)).final_state));
  CHECK(near(slot(out.pool, 5), slot(out.pool, 1)));  // the sequence's end is a multiple
  CHECK(near(plain(in, 128, 150, slot(out.pool, 4)).final_state, slot(out.pool, 0)));
  for (const int s : {6, 7, 8}) CHECK(slot(out.pool, s) == slot(pool, s));
}
