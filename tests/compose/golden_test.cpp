// What strategies make of a few problems, as text under golden/, reviewed like code.
// KDA_UPDATE_GOLDEN=1 rewrites the files; read the difference before committing it.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "compose/recipe.hpp"
#include "plan/choose.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "support/catch.hpp"

using namespace kda;

namespace {

struct Case {
  const char* name;
  const char* problem;
  const char* target;
  const char* strategy;
  const char* tuning = "";
};

constexpr Case kCases[] = {
    {"recurrent_decode", "T=64 N=64 H=32 h0=1 ht=1", "h200", "recurrent"},
    {"recurrent_committed", "T=512 N=64 H=32 h0=1 ht=1 committed=1", "h200", "recurrent"},
    {"recurrent_odd_varlen",
     "T=1000 N=7 H=2 HV=4 K=60 V=100 varlen=1 cu_seqlens=i32 qkv=f32 g=f32 beta=f32 gate=log_decay "
     "beta_logit=0 l2norm=0 layout=key_first state=bf16 ht=1",
     "sm_89", "recurrent"},
    {"chunk_h64", "T=8192 H=64 h0=1 ht=1", "h200", "chunk"},
    {"chunk_wgmma_h64", "T=8192 H=64 h0=1 ht=1", "h200", "chunk_wgmma",
     "stages_at_once=1 warpgroups=1 load_stages=5"},
    {"chunk_wgmma_h16_beside", "T=8192 H=16 h0=1 ht=1", "h200", "chunk_wgmma", "stages_at_once=2"},
    {"chunk_wgmma_h16_mixed", "T=8448 N=257 H=16 varlen=1 pool=1 mixed=1 h0=1 ht=1", "h200",
     "chunk_wgmma"},
    {"segments_h8", "T=8192 H=8 h0=1 ht=1", "h200", "segments"},
    {"fused_h64", "T=8192 H=64 h0=1 ht=1", "h200", "fused"},
    {"chunk_gva_varlen_sm89", "T=8192 N=6 H=16 HV=64 varlen=1 gate=softplus", "sm_89", "chunk"},
    {"chunk_f32_wy",
     "T=8192 N=2 H=8 K=64 V=64 qkv=f32 g=f32 beta=f32 gate=logsigmoid beta_logit=0 wy=32", "sm_89",
     "chunk"},
    {"chunk_f32", "T=4096 H=8 K=64 V=64 qkv=f32 g=f32 beta=f32", "h200", "chunk"},
};

// The grids of one run; its addresses are made up and never read.
std::string launches_of(const Problem& problem, const compose::Recipe& recipe) {
  Forward forward{.tokens = problem.max_tokens, .sequences = problem.max_sequences};
  if (!problem.varlen) forward.tokens -= forward.tokens % forward.sequences;
  problem::fill_strides(problem, forward);
  std::stringstream text;
  text << "\nlaunches at T=" << forward.tokens << " N=" << forward.sequences << "\n";
  for (const compose::Stage& stage : recipe.stages) {
    compose::Launch launch;
    stage.bind({forward, nullptr}, launch);
    text << stage.name << ": grid " << launch.grid[0] << " x " << launch.grid[1] << " x "
         << launch.grid[2] << ", " << launch.args_bytes << " bytes of arguments\n";
  }
  return text.str();
}

std::string text_of(const Case& each) {
  const auto parsed = problem::parse(each.problem);
  REQUIRE(parsed);
  const auto problem = problem::complete(*parsed);
  REQUIRE(problem);
  const auto device = device::parse(each.target);
  REQUIRE(device);
  const auto choice =
      plan::choose(*problem, *device, {.strategy = each.strategy, .tuning = each.tuning});
  INFO(choice.status().message());
  REQUIRE(choice);
  return std::string(each.target) + ": " + problem::to_text(*problem) + "\n" +
         compose::to_text(choice->recipe) + launches_of(*problem, choice->recipe);
}

}  // namespace

TEST_CASE("recipes are what they were when last reviewed", "[compose]") {
  for (const Case& each : kCases) {
    INFO(each.name);
    const std::string path =
        std::string(KDA_SOURCE_DIR "/tests/compose/golden/") + each.name + ".recipe";
    const std::string now = text_of(each);
    if (std::getenv("KDA_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(path) << now;
      continue;
    }
    std::ifstream file(path);
    std::stringstream golden;
    golden << file.rdbuf();
    CHECK(now == golden.str());
  }
}
