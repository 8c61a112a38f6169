// What gates bring to next to nothing keys may make large again, where a step may be more than one.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "abi/segments.h"
#include "problem/shape.hpp"
#include "reference/dtype.hpp"
#include "support/device_memory.hpp"
#include "support/rig.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;

TEST_CASE("what never grows again", "[strategy]") {
  const auto never_grows = [](const char* words) {
    return abi::segments::never_grows(problem::shape_of(problem_in_words(words)));
  };
  CHECK(never_grows("T=64 H=1"));
  CHECK(never_grows("T=64 H=1 neg_eigval=1"));
  CHECK(never_grows("T=64 H=1 beta_logit=0 beta_most_1=1"));
  CHECK_FALSE(never_grows("T=64 H=1 beta_logit=0"));
  CHECK(never_grows("T=64 H=1 l2norm=0 qk_normalized=1"));
  CHECK_FALSE(never_grows("T=64 H=1 l2norm=0"));
  // Keys as bf16 rounds them may be longer than one, by steps of 2 a hundredth a token.
  CHECK_FALSE(never_grows("T=64 H=1 l2norm=0 qk_normalized=1 neg_eigval=1"));
}

// The bug: a segment's T was taken for nothing once gates had brought it below 2^-64, though keys
// of length 1.5 then made it 2^72 times as large: the state after the segment was all zeros.
TEST_CASE("a state that closes and grows again is not lost", "[gpu][segments]") {
  if (!on_device()) return;
  const Gpu gpu;
  for (const double length : {1.5, 1.6}) {
    const double beta = length > 1.5 ? 0.9 : 1.0;
    const Trial one = complete(trial(
        "g=f32 gate=log_decay beta=f32 beta_logit=0 l2norm=0 h0=1 ht=1 H=1 HV=2 K=64 V=64", {512}));
    Truth truth(one);
    reference::Tensors tensors = truth.tensors();
    const auto put = [](DType type, reference::Bytes& to, std::size_t at, double x) {
      reference::store(type, to.data(), at, x);
    };
    for (std::size_t t = 256; t < 512; ++t) {
      for (std::size_t c = 0; c < 64; ++c) {
        const double x = reference::load(DType::bf16, tensors.k.data(), c);  // the first token's
        put(DType::bf16, tensors.k, t * 64 + c, x);
      }
      for (std::size_t head = 0; head < 2; ++head) {
        const std::size_t row = t * 2 + head;
        put(DType::f32, tensors.beta, row, t < 288 ? 0 : beta);
        for (std::size_t c = 0; c < 64; ++c) {
          put(DType::f32, tensors.g, row * 64 + c, t < 288 ? -1.5 : -1e-4);
          put(DType::bf16, tensors.v, row * 64 + c, 0);
        }
      }
    }
    double squares = 0;
    for (std::size_t c = 0; c < 64; ++c) {
      squares += std::pow(reference::load(DType::bf16, tensors.k.data(), c), 2);
    }
    for (std::size_t i = 256 * 64; i < 512 * 64; ++i) {
      const double x = reference::load(DType::bf16, tensors.k.data(), i);
      put(DType::bf16, tensors.k, i, x * length / std::sqrt(squares));
    }
    const reference::Outputs exact = reference::recurrence(reference::reference_inputs(tensors));
    Rig rig(gpu, one, tensors);
    for (const char* tuning : {"segment=4", "segment=8"}) {
      INFO(tuning << " | keys of length " << length);
      const std::string all = std::string("chunk=32 segments=1 ") + tuning;
      const auto plan = Plan::make(one.problem, {.strategy = "segments", .tuning = all});
      REQUIRE(plan);
      CHECK(rig.run(*plan) == "");
      const reference::Outputs out = rig.outputs();
      double off = 0, size = 0;
      for (std::size_t i = 0; i < out.final_state.size(); ++i) {
        off += std::pow(out.final_state[i] - exact.final_state[i], 2);
        size += std::pow(exact.final_state[i], 2);
      }
      CHECK(std::sqrt(off / size) < 0.05);
    }
  }
}
