// chunk_wgmma's default for sequences of few chunks; other defaults are with what they are for.
#include "strategy/chunk_wgmma.hpp"

#include <string>
#include <vector>

#include "abi/chunk_wgmma.h"
#include "plan/plan.hpp"
#include "problem/shape.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;
using abi::chunk_wgmma::Tuning;

namespace {

std::string default_tuning(const std::string& words) {
  return tunable::to_text(strategy::chunk_wgmma.defaults(problem_in_words(words), h200()));
}

}  // namespace

TEST_CASE("brief sequences go by blocks of which two share a multiprocessor", "[strategy]") {
  const std::string varlen = "H=16 varlen=1 ";
  CHECK_THAT(default_tuning(varlen + "T=2048 N=32"), contains("warpgroups=1 load_stages=3"));
  CHECK_THAT(default_tuning(varlen + "T=4096 N=32"), contains("warpgroups=1 load_stages=3"));
  CHECK_THAT(default_tuning(varlen + "T=8192 N=32"), contains("warpgroups=2 load_stages=4"));
  CHECK_THAT(default_tuning("T=8192 H=96"), contains("warpgroups=2 load_stages=4"));
  // Two do not fit, or have a warp more.
  const std::string brief = varlen + "T=4096 N=32 ";
  CHECK_THAT(default_tuning(brief + "neg_eigval=1"), contains("warpgroups=2 load_stages=4"));
  for (const char* more : {"", "layout=key_first "}) {
    INFO(more);
    CHECK_THAT(default_tuning(brief + more + "pool=1 h0=1 ht=1 checkpoint=64"),
               contains("load_stages=4"));
  }
}

TEST_CASE("brief sequences' default does not spill", "[strategy][compile]") {
  std::vector<Problem> problems;
  for (const char* more :
       {"H=16 h0=1 ht=1", "H=4 HV=64 h0=1 ht=1", "H=16 V=256", "H=32 K=64 h0=1 ht=1",
        "H=32 K=64 V=64 h0=0 ht=1", "H=16 l2norm=0 h0=1 ht=1", "H=16 h0=1 ht=1 state=bf16",
        "H=16 h0=1 ht=1 layout=key_first", "H=16 pool=1 h0=1 ht=1 zero_padding=1",
        "H=16 pool=1 h0=1 ht=1 state=bf16 layout=key_first slots=i64"}) {
    problems.push_back(problem_in_words(std::string("T=2048 N=32 varlen=1 ") + more));
  }
  const Scratch cache;
  for (const plan::Made& made : plan::make_all(
           problems, {.target = "h200", .cache_dir = cache.path(), .strategy = "chunk_wgmma"})) {
    INFO(made.status().message());
    REQUIRE(made);
    INFO(plan::describe(**made));
    CHECK_THAT(tunable::to_text((*made)->program.recipe.tuning),
               contains("warpgroups=1 load_stages=3"));
    for (const program::Kernel& kernel : (*made)->program.kernels) {
      CHECK(kernel.resources.spill_bytes == 0);
    }
    CHECK((*made)->program.kernels.at(1).resources.registers <= 168);
  }
}

TEST_CASE("two blocks share a multiprocessor where its memory holds their rings", "[strategy]") {
  const auto blocks = [](const std::string& words, const Tuning& tuning) {
    return abi::chunk_wgmma::resident_blocks(problem::shape_of(problem_in_words(words)), tuning);
  };
  CHECK(blocks("H=16", {.load_stages = 3}) == 2);
  CHECK(blocks("H=16", {.load_stages = 4}) == 1);
  CHECK(blocks("H=16 K=64 V=64", {.load_stages = 4}) == 2);
  // The chain has its multiprocessor to itself.
  CHECK(blocks("H=16", {.load_stages = 3, .stages_at_once = 2}) == 1);
  CHECK(blocks("T=8192 H=16 pool=1 h0=1 ht=1 checkpoint=64", {.load_stages = 3}) == 1);
}
