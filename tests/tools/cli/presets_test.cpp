#include "cli/presets.hpp"

#include <nlohmann/json.hpp>

#include "problem/problem.hpp"
#include "support/catch.hpp"

using namespace kda;

TEST_CASE("every model is a problem that can be planned, at the usual tensor parallelism",
          "[tools]") {
  for (const cli::Preset& preset : cli::presets()) {
    for (const int tp : {1, 2, 4, 8}) {
      INFO(preset.name << " tp=" << tp);
      auto problem = cli::problem_of(preset, tp);
      REQUIRE(problem);
      CHECK(problem->heads * tp == preset.heads);
      problem->max_tokens = 64;
      CHECK(problem::complete(*problem));
    }
    CHECK(preset.kda_layers < preset.layers);
  }
}

TEST_CASE("every model says where its numbers are from", "[tools]") {
  for (const auto& row : cli::preset_rows()) {
    CHECK(row["model"].get<std::string>().starts_with("huggingface.co/"));
    CHECK(row["source"].get<std::string>().size() > 20);
  }
}
