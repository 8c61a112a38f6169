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

TEST_CASE("f32 of 64 channels goes by chunks of 32 and a block a head", "[strategy]") {
  const std::string f32 = "T=4096 H=8 qkv=f32 g=f32 beta=f32 ";
  for (const char* size : {"K=64 V=64", "K=64 V=64 wy=32"}) {
    INFO(size);
    const abi::chunk::Tuning tuning = default_tuning(f32 + size);
    CHECK(tuning.chunk == 32);
    CHECK(tuning.threads == 128);
    CHECK(tuning.shards == 1);
    CHECK(tuning.load_stages == 4);
  }
  for (const char* size : {"K=128 V=128", "K=64 V=128", "K=128 V=64"}) {
    INFO(size);
    CHECK(default_tuning(f32 + size).chunk == 16);
    CHECK(default_tuning(f32 + size).shards > 1);
  }
  CHECK(default_tuning("T=4096 H=8 K=128").chunk == 32);
  CHECK(default_tuning("T=4096 H=8 K=256").chunk == 16);
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
