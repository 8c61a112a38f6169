#include "tune/needs.hpp"

#include <nlohmann/json.hpp>

#include "cache/entries.hpp"
#include "support/catch.hpp"

using namespace kda;

TEST_CASE("a kernel's row says what it needs, and that its wgmma are serialized", "[tools]") {
  compose::Stage stage;
  stage.name = "forward";
  stage.shared_bytes = 4096;
  program::Unit unit;
  unit.key = test::key_for("a");
  unit.job.target = "sm_90a";
  cache::Entry entry = test::entry_for("a");
  const auto row_of = [&] {
    const cache::Found found{std::make_shared<const cache::Entry>(entry), cache::Origin::disk};
    return tune_tool::kernel_row(stage, unit, &found);
  };
  const cli::Json serialized = row_of();
  CHECK(serialized["registers"] == 96);
  CHECK(serialized["shared_bytes"] == 4096 + 1024);
  CHECK_THAT(serialized["note"].get<std::string>(), test::contains("a newer NVRTC may not"));
  entry.resources.serialized_wgmma = 0;
  CHECK_FALSE(row_of().contains("note"));
  CHECK_FALSE(tune_tool::kernel_row(stage, unit, nullptr).contains("registers"));
}
