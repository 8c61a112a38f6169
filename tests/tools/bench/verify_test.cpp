#include "bench/verify.hpp"

#include <cmath>

#include "problem/problem.hpp"
#include "reference/dtype.hpp"
#include "reference/inputs.hpp"
#include "support/catch.hpp"

using namespace kda;

namespace {

// A small problem and what a right device would write for it.
struct Written {
  reference::Tensors tensors;
  reference::Bytes o, final_state;

  Written() {
    Problem problem{.heads = 2, .value_heads = 4, .key_dim = 16, .value_dim = 8, .max_tokens = 48};
    problem.state_layout = StateLayout::key_first;
    problem.initial_state = problem.final_state = true;
    tensors = reference::make_tensors(*problem::complete(problem), 48, 1);
    const reference::Outputs truth = reference::recurrence(reference::reference_inputs(tensors));
    o = stored(DType::bf16, truth.o);
    final_state = stored(DType::f32, truth.final_state);
  }

  static reference::Bytes stored(DType type, const std::vector<double>& values) {
    reference::Bytes bytes(values.size() * reference::bytes_of(type));
    for (std::size_t i = 0; i < values.size(); ++i) {
      reference::store(type, bytes.data(), i, values[i]);
    }
    return bytes;
  }
};

}  // namespace

TEST_CASE("right outputs are right, with the error of their rounding", "[tools]") {
  Written written;
  bench::Verifier verifier(written.tensors, {0, 3});
  const bench::Verdict verdict = verifier.judge(written.o, written.final_state);
  INFO(verdict.why);
  CHECK(verdict.right);
  CHECK(verdict.o_error > 1e-4);
  CHECK(verdict.o_error < 5e-3);
  CHECK(verdict.state_error < 1e-6);
}

TEST_CASE("an element that was not written is found on any head", "[tools]") {
  Written written;
  bench::Verifier verifier(written.tensors, {0, 3});
  const std::size_t at = (20 * 4 + 1) * 8 + 5;  // token 20, head 1: not among those compared
  reference::store(DType::bf16, written.o.data(), at, NAN);
  const bench::Verdict verdict = verifier.judge(written.o, written.final_state);
  CHECK_FALSE(verdict.right);
  CHECK_THAT(verdict.why, test::contains("element " + std::to_string(at)));
}

TEST_CASE("a state that was not written is found", "[tools]") {
  Written written;
  bench::Verifier verifier(written.tensors, {3});
  reference::store(DType::f32, written.final_state.data(), 7, NAN);
  CHECK_THAT(verifier.judge(written.o, written.final_state).why, test::contains("final_state"));
}

TEST_CASE("a head off by two percent is wrong, and named", "[tools]") {
  Written written;
  bench::Verifier verifier(written.tensors, {0, 3});
  for (std::size_t token = 0; token < 48; ++token) {
    for (std::size_t c = 0; c < 8; ++c) {
      const std::size_t at = (token * 4 + 3) * 8 + c;
      const double value = reference::load(DType::bf16, written.o.data(), at);
      reference::store(DType::bf16, written.o.data(), at, 1.02 * value);
    }
  }
  const bench::Verdict verdict = verifier.judge(written.o, written.final_state);
  CHECK_FALSE(verdict.right);
  CHECK_THAT(verdict.why, test::contains("head 3"));
  CHECK(verdict.o_error > 0.015);
}

TEST_CASE("the heads verified are spread, ends among them", "[tools]") {
  CHECK(bench::spread_heads(96, 2) == std::vector<int>{0, 95});
  CHECK(bench::spread_heads(96, 3) == std::vector<int>{0, 47, 95});
  CHECK(bench::spread_heads(96, 1) == std::vector<int>{95});
  CHECK(bench::spread_heads(2, 8) == std::vector<int>{0, 1});
  CHECK(bench::spread_heads(1, 2) == std::vector<int>{0});
}
