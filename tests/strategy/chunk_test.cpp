// Strategy chunk's defaults; what its kernels compute is every_strategy_test.cpp's.
#include "strategy/chunk.hpp"

#include <string>

#include "abi/chunk.h"
#include "problem/problem.hpp"
#include "support/catch.hpp"
#include "support/words.hpp"

using namespace kda;

namespace {

abi::chunk::Tuning default_tuning(const std::string& words) {
  return tunable::tuning_of<abi::chunk::Tuning>(
      strategy::chunk.defaults(test::problem_in_words(words), test::h200()), abi::chunk::tunables);
}

}  // namespace

TEST_CASE("f32 goes by chunks of 16, of 64 channels by chunks of 32", "[strategy]") {
  const std::string f32 = "T=4096 H=8 qkv=f32 g=f32 beta=f32 ";
  for (const char* size : {"K=64 V=64", "K=64 V=64 wy=32"}) {
    INFO(size);
    CHECK(default_tuning(f32 + size).chunk == 32);
  }
  for (const char* size : {"K=128 V=128", "K=64 V=128", "K=128 V=64"}) {
    INFO(size);
    CHECK(default_tuning(f32 + size).chunk == 16);
  }
  CHECK(default_tuning("T=4096 H=8 K=128").chunk == 32);
  CHECK(default_tuning("T=4096 H=8 K=256").chunk == 32);
}

// The bug: 8192 tokens of 8 heads in f32 took 2.4 ms where FLA takes 1.0, and of 4 heads with K =
// 256 as long as FLA: 32 blocks of two warps, each with all key channels, were all that was at
// work.
TEST_CASE("a chain of few heads is shared by warps", "[strategy]") {
  const auto check = [](const std::string& words, int key_warps, int shards) {
    INFO(words);
    const abi::chunk::Tuning tuning = default_tuning(words);
    CHECK(tuning.key_warps == key_warps);
    CHECK(tuning.shards == shards);
    CHECK(tuning.threads == 128);
  };
  const std::string f32 = "T=8192 qkv=f32 g=f32 beta=f32 ";
  check(f32 + "H=8", 4, 8);
  check(f32 + "H=32", 2, 4);
  check(f32 + "H=64", 2, 4);
  check(f32 + "N=2 H=8 K=64 V=64", 4, 4);
  check("T=8192 H=4 K=256 V=256", 4, 16);
  check("T=8192 H=16 K=256 V=256", 2, 8);
  check("T=8192 H=8", 4, 8);
  check("T=8192 H=64", 1, 2);
  // Each has to have some of the channels, by 16s.
  CHECK(default_tuning("T=8192 H=8 K=16").key_warps == 1);
  CHECK(default_tuning("T=8192 H=8 K=32").key_warps == 2);
  CHECK(default_tuning("T=8192 H=8 K=60").key_warps == 4);
  CHECK(default_tuning("T=8192 H=8 K=80").key_warps == 2);
  CHECK(default_tuning("T=8192 H=8 K=100").key_warps == 4);
  CHECK(default_tuning("T=8192 H=8 K=192").key_warps == 4);
}

// The bug: a slot more than f32 of 64 channels had elsewhere was too much for an sm_89 by chunks of
// 64, the WY tensors' (kda_prefill_f32): the default could not be composed.
TEST_CASE("f32 with w and u has a default that an sm_89 composes", "[strategy]") {
  const auto device = device::parse("sm_89");
  REQUIRE(device);
  for (const char* wy : {"wy=16", "wy=32", "wy=64"}) {
    INFO(wy);
    const Problem problem = test::problem_in_words(
        "T=4096 N=2 H=8 K=64 V=64 qkv=f32 g=f32 beta=f32 " + std::string(wy));
    const auto recipe =
        strategy::chunk.compose(problem, *device, strategy::chunk.defaults(problem, *device));
    INFO(recipe.status().message());
    CHECK(recipe);
  }
}

// The bug: the limit said 8192, which no tuning reaches, so that V = 4097 was told to take more
// shards or threads than there are; and from 2049 on the default was one that cannot serve.
TEST_CASE("V is served up to its limit, by the default, and refused past it by name",
          "[strategy]") {
  const auto sized = [](const std::string& words, int V) {
    return test::problem_in_words(words + " V=" + std::to_string(V));
  };
  for (const char* target : {"sm_89", "sm_90a"}) {
    const auto device = device::parse(target);
    REQUIRE(device);
    for (const char* type : {"bf16", "f16", "f32"})
      for (const int K : {64, 128, 256}) {
        const std::string words = "T=4096 H=2 qkv=" + std::string(type) + " K=" + std::to_string(K);
        INFO(target << ": " << words);
        for (const int V : {1, 1000, 1024, 1025, 2048, 2049, 3000, 4095, 4096}) {
          INFO("V=" << V);
          const Problem problem = sized(words, V);
          CHECK(strategy::chunk.applicable(problem, *device));
          const auto recipe =
              strategy::chunk.compose(problem, *device, strategy::chunk.defaults(problem, *device));
          INFO(recipe.status().message());
          CHECK(recipe);
        }
        const Problem past = sized(words, 4097);
        const Status refused = strategy::chunk.applicable(past, *device);
        CHECK(refused.code() == Code::unsupported);
        CHECK(refused.message() ==
              "strategy chunk: value_dim is 4097, at most 4096 are served, 16 shards of 256 "
              "columns; strategy recurrent serves more");
        for (const tunable::Values& tuning : tunable::enumerate(strategy::chunk.space())) {
          if (strategy::chunk.compose(past, *device, tuning)) FAIL(tunable::to_text(tuning));
        }
      }
  }
}

// The bug: 128 columns beside a state of 256 channels were two tiles a warp, which spill.
TEST_CASE("a state of 256 channels gets one tile of columns a warp while that does", "[strategy]") {
  for (const int V : {1025, 2048}) {
    const std::string value = " V=" + std::to_string(V);
    CHECK(default_tuning("T=4096 H=2 K=256" + value).threads == 256);
    CHECK(default_tuning("T=4096 H=2 K=128" + value).threads == 128);
  }
}
