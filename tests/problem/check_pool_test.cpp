#include "problem/check_pool.hpp"

#include <cstdint>
#include <functional>
#include <string>

#include "problem/check.hpp"
#include "problem/problem.hpp"
#include "support/catch.hpp"

using namespace kda;

namespace {

// Addresses are compared, never read.
void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

constexpr std::int64_t kSlot = 4 * 64 * 32;  // elements

Problem pooled() {
  return *problem::complete({.heads = 2,
                             .value_heads = 4,
                             .key_dim = 64,
                             .value_dim = 32,
                             .max_tokens = 1000,
                             .max_sequences = 8,
                             .initial_state = true,
                             .final_state = true,
                             .state_pool = true});
}
Problem drafting() {
  Problem p = pooled();
  p.draft_states = true;
  return p;
}
Problem checkpointing() {
  Problem p = pooled();
  p.checkpoint_tokens = 64;
  return p;
}

Forward legal(const Problem& p) {
  Forward f{.tokens = 8, .sequences = 4};
  f.q = at(0x100000), f.k = at(0x200000), f.v = at(0x300000), f.g = at(0x400000);
  f.beta = at(0x500000);
  f.o = at(0x600000);
  f.initial_state = f.final_state = at(0x10000000);
  f.pool.slots = 100;
  f.pool.indices.data = at(0x700000);
  if (p.checkpoint_tokens > 0) f.pool.checkpoints = {at(0x800000), 2, 0};
  return f;
}

Status checked(const Problem& p, const std::function<void(Forward&)>& change) {
  Forward f = legal(p);
  change(f);
  return problem::check(p, f);
}

std::string refusal(const std::function<void(Forward&)>& spoil, const Problem& p = pooled()) {
  const Status status = checked(p, spoil);
  CHECK(status.code() == Code::invalid_argument);
  return status.message();
}

}  // namespace

TEST_CASE("legal pools pass", "[problem]") {
  CHECK(checked(pooled(), [](Forward&) {}));
  CHECK(checked(pooled(), [](Forward& f) { f.pool.stride = kSlot + 1; }));
  // Contiguous ones whose strides are given, as of a tensor.
  CHECK(checked(pooled(), [](Forward& f) { f.pool.stride = kSlot; }));
  CHECK(checked(pooled(), [](Forward& f) { f.pool.indices = {at(0x700004), 3, 3}; }));
  CHECK(checked(pooled(), [](Forward& f) { f.pool.initial_indices = at(0x900004); }));
  CHECK(checked(pooled(), [](Forward& f) { f.pool.indices = {at(0x700004), 3, 5}; }));
  CHECK(checked(pooled(), [](Forward& f) { f.final_state = at(0x20000000); }));
  CHECK(checked(drafting(), [](Forward& f) { f.pool.num_accepted_tokens = at(0x900004); }));
  CHECK(checked(checkpointing(), [](Forward&) {}));
}

TEST_CASE("a pool that the plan does not know is refused", "[problem]") {
  Problem p = pooled();
  p.state_pool = false;
  CHECK(refusal([](Forward&) {}, p) ==
        "pool is given, but Problem::state_pool = false; make the plan with it, or leave it empty");
  CHECK(checked(p, [](Forward& f) { f.pool = {}; }));
  CHECK_THAT(refusal([](Forward& f) { f.pool.num_accepted_tokens = at(0x900000); }),
             test::contains("pool.num_accepted_tokens is given, but Problem::draft_states"));
  CHECK_THAT(refusal([](Forward& f) { f.pool.checkpoints.data = at(0x900000); }),
             test::contains("pool.checkpoints is given, but Problem::checkpoint_tokens = 0"));
  p = pooled();
  p.initial_state = false;
  CHECK_THAT(refusal(
                 [](Forward& f) {
                   f.initial_state = nullptr;
                   f.pool.initial_indices = at(0x900000);
                 },
                 p),
             test::contains("pool.initial_indices is given, but Problem::initial_state = false"));
}

// The bug: accepted tokens say which state to start from, and a plan without one ignored them.
TEST_CASE("accepted tokens without an initial state are refused", "[problem]") {
  Problem p = drafting();
  p.initial_state = false;
  const auto fresh = [](Forward& f) { f.initial_state = nullptr; };
  CHECK(checked(p, fresh));
  CHECK(refusal(
            [&](Forward& f) {
              fresh(f);
              f.pool.num_accepted_tokens = at(0x900000);
            },
            p) ==
        "pool.num_accepted_tokens is given, but Problem::initial_state = false: it says which "
        "state to start from; make the plan with it, or pass null");
}

TEST_CASE("sizes of a pool are refused by field, value and limit", "[problem]") {
  CHECK(refusal([](Forward& f) { f.pool.slots = 0; }) == "pool.slots = 0; it must be at least 1");
  CHECK(refusal([](Forward& f) { f.pool.stride = kSlot - 1; }) ==
        "pool.stride = 8191 makes slots overlap; at least 8192 does not (0: contiguous)");
  CHECK_THAT(refusal([](Forward& f) { f.pool.slots = std::int64_t{1} << 49; }),
             test::contains("pool.slots = 562949953421312 reach past 63 bits of address"));
}

TEST_CASE("tables of slots are refused by field, value and limit", "[problem]") {
  CHECK(refusal([](Forward& f) { f.pool.indices.data = nullptr; }) == "pool.indices.data is null");
  CHECK(refusal([](Forward& f) { f.pool.indices.columns = 0; }) ==
        "pool.indices.columns = 0; it must be at least 1");
  CHECK(refusal([](Forward& f) {
          f.pool.indices = {at(0x700000), 4, 3};
        }) == "pool.indices.stride = 3 is less than columns = 4 (0: contiguous)");
  CHECK(refusal([](Forward& f) { f.pool.checkpoints = {}; }, checkpointing()) ==
        "pool.checkpoints.data is null");
  CHECK(refusal([](Forward& f) { f.pool.indices.data = at(0x700002); }) ==
        "pool.indices = 0x700002 is not aligned to its element of 4 bytes");
  Problem wide = drafting();
  wide.slot_index_type = Index::i64;
  CHECK(refusal([](Forward& f) { f.pool.initial_indices = at(0x900004); }, wide) ==
        "pool.initial_indices = 0x900004 is not aligned to its element of 8 bytes");
  CHECK_THAT(refusal([](Forward& f) { f.pool.num_accepted_tokens = at(0x900004); }, wide),
             test::contains("pool.num_accepted_tokens = 0x900004 is not aligned"));
}

// The bug: a table's rows might lie past 63 bits of address, which wrapped, so that kernels read
// slots of another row or of nobody.
TEST_CASE("tables of slots whose rows have no address are refused", "[problem]") {
  constexpr std::int64_t kFar = std::int64_t{1} << 62;
  const auto message = refusal([](Forward& f) { f.pool.indices.stride = kFar; });
  CHECK_THAT(message, test::contains("pool.indices.stride = 4611686018427387904 reaches past 63 "
                                     "bits of address; with 4 sequences "));
  CHECK_THAT(refusal([](Forward& f) { f.pool.checkpoints.stride = kFar; }, checkpointing()),
             test::contains("pool.checkpoints.stride = 4611686018427387904"));
  CHECK(checked(pooled(), [](Forward& f) { f.pool.indices.stride = kFar / 4 / 4; }));
  CHECK(checked(pooled(), [](Forward& f) { f.sequences = 1, f.pool.indices.stride = kFar; }));
}

TEST_CASE("pools that overlap without being one are refused", "[problem]") {
  // 100 slots of 8192 f32: 3.2 MB, though four sequences would take 128 KB of it.
  const auto shifted = [](std::uintptr_t by) {
    return [by](Forward& f) { f.final_state = at(0x10000000 + by); };
  };
  CHECK_THAT(refusal(shifted(0x200000)), test::contains("final_state overlaps initial_state"));
  CHECK(checked(pooled(), shifted(100 * kSlot * 4)));
  CHECK(problem::state_extent(pooled(), legal(pooled())) == 100 * kSlot * 4);
}

// The bug: two pools that share a buffer slot by slot, [slots, 2, HV, V, K], were refused as if
// they overlapped.
TEST_CASE("pools whose slots stand between each other's are legal", "[problem]") {
  const auto apart = [](std::uintptr_t elements, std::int64_t stride) {
    return [=](Forward& f) {
      f.pool.stride = stride;
      f.final_state = at(0x10000000 + elements * 4);
    };
  };
  CHECK(checked(pooled(), apart(kSlot, 2 * kSlot)));
  CHECK(checked(pooled(), apart(7 * kSlot, 2 * kSlot)));
  CHECK(checked(pooled(), apart(kSlot + 8, 3 * kSlot)));
  for (const auto& [elements, stride] :
       {std::pair{kSlot, 2 * kSlot - 4}, {kSlot - 4, 2 * kSlot}, {2 * kSlot, 2 * kSlot}}) {
    INFO(elements << " " << stride);
    CHECK_THAT(refusal(apart(elements, stride)),
               test::contains("final_state overlaps initial_state"));
  }
}

// The bug: where a pool of one slot lies over another's the distance was divided by the stride,
// whose bytes wrap to nothing at 2^62 elements: the process ended by SIGFPE.
TEST_CASE("a pool of one slot may have any stride, and is refused where it overlaps", "[problem]") {
  const Problem problem = pooled();
  Forward forward = legal(problem);
  forward.pool.slots = 1;
  forward.pool.stride = std::int64_t{1} << 62;
  CHECK(problem::check(problem, forward).ok());
  forward.final_state = at(0x10000100);
  CHECK_THAT(problem::check(problem, forward).message(), test::contains("overlap"));
}

// The bug: a run was to write over the slots that it reads.
TEST_CASE("outputs have memory apart from a pool's indices", "[problem]") {
  CHECK(refusal([](Forward& f) { f.o = const_cast<void*>(f.pool.indices.data); }) ==
        "o and pool.indices are the same memory; outputs need their own");
  CHECK(refusal([](Forward& f) { f.initial_state = f.final_state = at(0x700000); }) ==
        "final_state and pool.indices are the same memory; outputs need their own");
  CHECK(refusal([](Forward& f) { f.pool.checkpoints.data = f.o; }, checkpointing()) ==
        "o and pool.checkpoints are the same memory; outputs need their own");
  CHECK(refusal([](Forward& f) { f.pool.initial_indices = f.o; }) ==
        "o and pool.initial_indices are the same memory; outputs need their own");
  CHECK(refusal([](Forward& f) { f.pool.num_accepted_tokens = f.o; }, drafting()) ==
        "o and pool.num_accepted_tokens are the same memory; outputs need their own");
}
