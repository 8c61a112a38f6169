#include "strategy/table.hpp"

#include <set>
#include <string>

#include "device/device.hpp"
#include "problem/problem.hpp"
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
