// Strategy chunk's defaults; what its kernels compute is every_strategy_test.cpp's.
#include "strategy/chunk.hpp"

#include <string>

#include "abi/chunk.h"
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
