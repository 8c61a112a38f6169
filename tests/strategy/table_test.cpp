#include "strategy/table.hpp"

#include <set>
#include <string>

#include "device/device.hpp"
#include "problem/problem.hpp"
#include "strategy/pick.hpp"
#include "support/catch.hpp"

using namespace kda;

TEST_CASE("every row is whole and its name its own", "[strategy]") {
  std::set<std::string> names;
  for (const strategy::Strategy* each : strategy::table()) {
    REQUIRE(each != nullptr);
    INFO(each->name);
    CHECK(names.insert(each->name).second);
    CHECK_FALSE(std::string(each->summary).empty());
    CHECK(each->applicable != nullptr);
    CHECK(each->space != nullptr);
    CHECK(each->defaults != nullptr);
    CHECK(each->compose != nullptr);
    CHECK(each->estimate != nullptr);
    CHECK(strategy::find(each->name) == each);
  }
  CHECK(names.count("recurrent") == 1);
  CHECK(names.count("chunk") == 1);
  CHECK(strategy::find("nothing") == nullptr);
  CHECK(strategy::known_names().find("recurrent") != std::string::npos);
}

TEST_CASE("defaults are among the values worth trying", "[strategy]") {
  for (const char* target : {"sm_89", "h200"}) {
    const auto device = device::parse(target);
    REQUIRE(device);
    for (const char* text : {"H=4 T=8192", "H=4 T=1", "H=2 HV=16 K=60 V=100 qkv=f32 T=1000",
                             "H=96 T=131072 K=256 V=256"}) {
      const auto problem = problem::complete(*problem::parse(text));
      REQUIRE(problem);
      for (const strategy::Strategy* each : strategy::table()) {
        if (!each->applicable(*problem, *device)) continue;
        INFO(each->name << " on " << target << ": " << text);
        const auto values = each->defaults(*problem, *device);
        const auto parsed = tunable::parse(tunable::to_text(values), each->space(), values);
        INFO(parsed.status().message());
        CHECK(parsed);
        const double microseconds = each->estimate(*problem, *device, values);
        CHECK(microseconds > 0);
        CHECK(microseconds < 1e9);
      }
    }
  }
}

TEST_CASE("some strategy serves every problem of the promise", "[strategy]") {
  for (const char* target : {"sm_80", "sm_89", "sm_90a"}) {
    const auto device = device::parse(target);
    REQUIRE(device);
    for (const char* text : {"H=1 K=1 V=1", "H=1 K=256 V=256", "H=3 K=60 V=100 qkv=f16",
                             "H=1 HV=8 K=16 V=1000 qkv=f32 state=bf16"}) {
      const auto problem = problem::complete(*problem::parse(text));
      REQUIRE(problem);
      bool served = false;
      for (const strategy::Strategy* each : strategy::table()) {
        served = served || (each->applicable(*problem, *device) &&
                            each->compose(*problem, *device, each->defaults(*problem, *device)));
      }
      INFO(target << ": " << text);
      CHECK(served);
    }
  }
}

// The bug: chunks of 64 with more than 128 channels seemed to be served, and were refused by words
// of the tuning, which nobody had chosen.
TEST_CASE("chunk_wgmma says what w and u of long chunks leave room for", "[strategy]") {
  const auto h200 = device::parse("h200");
  REQUIRE(h200);
  const auto served = [&](int chunk, int K) {
    const auto problem = problem::complete({.heads = 8,
                                            .key_dim = K,
                                            .value_dim = 128,
                                            .max_tokens = 8192,
                                            .qkv_type = DType::bf16,
                                            .wy_chunk = chunk});
    REQUIRE(problem);
    const auto picked = strategy::pick(*problem, *h200, "chunk_wgmma", "");
    CHECK(static_cast<bool>(picked) ==
          strategy::find("chunk_wgmma")->applicable(*problem, *h200).ok());
    return picked.status();
  };
  CHECK(served(64, 128));
  CHECK(served(32, 192));
  CHECK_THAT(served(64, 144).message(), test::contains("key_dim is 144 with wy_chunk = 64") &&
                                            test::contains("leave room for 128"));
}

TEST_CASE("w and u come from strategies of chunks, of the chunks asked for", "[strategy]") {
  for (const char* target : {"sm_89", "sm_90a", "sm_120a"}) {
    const auto device = device::parse(target);
    REQUIRE(device);
    for (const DType type : {DType::f32, DType::bf16})
      for (const int chunk : {16, 32, 64})
        for (const int K : {64, 128})
          for (const int V : {64, 128}) {
            Problem wanted{.heads = 8, .key_dim = K, .value_dim = V, .max_tokens = 8192};
            wanted.qkv_type = type;
            wanted.wy_chunk = chunk;
            const auto problem = problem::complete(wanted);
            REQUIRE(problem);
            INFO(target << ": " << problem::to_text(*problem));
            CHECK_THAT(strategy::find("recurrent")->applicable(*problem, *device).message(),
                       test::contains("wy_chunk is set"));
            const auto candidates = strategy::pick(*problem, *device, "", "");
            INFO(candidates.status().message());
            REQUIRE(candidates);
            CHECK_THAT(tunable::to_text(candidates->recipe.tuning),
                       test::contains("chunk=" + std::to_string(chunk) + " "));
          }
  }
}
