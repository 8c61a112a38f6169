// The bug: chunk and chunk_wgmma multiplied sequences, value heads and shards in 32 bits and
// launched what was left of the product, so most sequences of a huge batch were silently not
// computed.
#include "compose/recipe.hpp"
#include "device/device.hpp"
#include "problem/problem.hpp"
#include "strategy/table.hpp"
#include "support/catch.hpp"

using namespace kda;

TEST_CASE("more blocks than a grid holds are refused, naming the sequences") {
  const auto device = device::parse("h200");
  REQUIRE(device);
  for (const char* name : {"chunk", "chunk_wgmma"}) {
    INFO(name);
    const strategy::Strategy* row = strategy::find(name);
    REQUIRE(row != nullptr);
    for (const int sequences : {1 << 15, 1 << 17}) {  // times 16384 heads and 2 shards: 2^30, 2^32
      const auto problem = problem::complete(
          Problem{.heads = 16384, .max_tokens = 16, .max_sequences = sequences, .varlen = true});
      INFO(problem.status().message());
      REQUIRE(problem);
      const auto recipe = row->compose(*problem, *device, row->defaults(*problem, *device));
      CHECK(static_cast<bool>(recipe) == (sequences == 1 << 15));
      if (!recipe) {
        CHECK(recipe.status().code() == Code::unsupported);
        CHECK(recipe.status().message().find("max_sequences=131072") != std::string::npos);
      }
    }
  }
}
