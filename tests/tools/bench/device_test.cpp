// kda-bench on a real device.
#include "bench/request.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/json.hpp"
#include "tools/run_tool.hpp"

using namespace kda;
using kda::test::Json;

TEST_CASE("every strategy is verified and timed on the device", "[tools][gpu]") {
  const test::Scratch scratch;
  const test::Ran ran = test::run_tool(
      &bench::main_of_bench, {"kda-bench", "T=1000 H=2 HV=4 N=4 varlen=1", "h4_t1024", "--strategy",
                              "chunk", "--strategy", "recurrent", "--gate-regime", "strong,weak",
                              "--repeats", "5", "--json", "-", "--cache-dir", scratch / "cache"});
  INFO(ran.err);
  CHECK(ran.code == 0);
  const Json rows = Json::parse(ran.out);
  REQUIRE(rows.size() == 8);
  for (const Json& row : rows) {
    INFO(row.dump());
    CHECK(test::text(row["status"]) == "ok");
    CHECK(test::number(row["gpu_us"]["median"]) > 0);
    // A fast call's host time is a lower bound of its time in a row without a graph.
    CHECK(1e3 * test::number(row["call_us"]["median"]) > 0.5 * test::number(row["run_ns"]["min"]));
  }
}
