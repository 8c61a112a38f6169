#include "reference/tensors.hpp"

#include "problems.hpp"
#include "reference/dtype.hpp"
#include "reference/inputs.hpp"
#include "support/catch.hpp"

using namespace kda;
using namespace kda::reference;

TEST_CASE("chosen heads bring their key heads, parameters and states along") {
  Problem p = small_problem(2, 6, 4, 3, DType::bf16);
  p.state_layout = StateLayout::key_first;
  const Tensors tensors = make_tensors(p, 9, {0, 4, 9});
  const Inputs all = reference_inputs(tensors), some = reference_inputs(tensors, {4, 2});
  CHECK(some.problem.heads == 2);
  CHECK(some.problem.value_heads == 2);
  CHECK(some.tokens() == 9);
  CHECK(some.k[(7 * 2 + 0) * 4 + 1] == all.k[(7 * 2 + 1) * 4 + 1]);  // 4 / (6 / 2) = 1
  CHECK(some.k[(7 * 2 + 1) * 4 + 1] == all.k[(7 * 2 + 0) * 4 + 1]);  // 2 / (6 / 2) = 0
  CHECK(some.v[(7 * 2 + 1) * 3 + 2] == all.v[(7 * 6 + 2) * 3 + 2]);
  CHECK(some.g[(7 * 2 + 1) * 4 + 2] == all.g[(7 * 6 + 2) * 4 + 2]);
  CHECK(some.beta[3 * 2] == all.beta[3 * 6 + 4]);
  CHECK(some.A_log[1] == all.A_log[2]);
  CHECK(some.dt_bias[4 + 3] == all.dt_bias[2 * 4 + 3]);
  CHECK(some.initial_state[(1 * 2 + 0) * 12 + 5] == all.initial_state[(1 * 6 + 4) * 12 + 5]);
}

TEST_CASE("states come out key-first from either layout") {
  Problem p = small_problem(1, 1, 2, 3);
  std::vector<float> stored = {0, 1, 2, 3, 4, 5};
  Tensors tensors = make_tensors(p, 0, 1);
  tensors.problem.state_layout = StateLayout::key_first;
  CHECK(reference_outputs(tensors, nullptr, stored.data()).final_state ==
        std::vector<double>{0, 1, 2, 3, 4, 5});
  tensors.problem.state_layout = StateLayout::value_first;  // [V, K]
  CHECK(reference_outputs(tensors, nullptr, stored.data()).final_state ==
        std::vector<double>{0, 2, 4, 1, 3, 5});
}

TEST_CASE("cu_seqlens are running sums") {
  CHECK(cu_seqlens_of(std::vector<std::int64_t>{3, 0, 4}) == std::vector<std::int64_t>{0, 3, 3, 7});
}
