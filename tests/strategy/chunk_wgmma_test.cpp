// chunk_wgmma's default for sequences of few chunks; other defaults are with what they are for.
#include "strategy/chunk_wgmma.hpp"

#include <string>

#include "abi/chunk_wgmma.h"
#include "problem/shape.hpp"
#include "support/catch.hpp"
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

TEST_CASE("two blocks share a multiprocessor where its memory holds their rings", "[strategy]") {
  const auto blocks = [](const std::string& words, const Tuning& tuning) {
    return abi::chunk_wgmma::blocks_by_memory(problem::shape_of(problem_in_words(words)), tuning);
  };
  CHECK(blocks("H=16", {.load_stages = 3}) == 2);
  CHECK(blocks("H=16", {.load_stages = 4}) == 1);
  CHECK(blocks("H=16 K=64 V=64", {.load_stages = 4}) == 2);
  // The chain has its multiprocessor to itself.
  CHECK(blocks("H=16", {.load_stages = 3, .stages_at_once = 2}) == 1);
  CHECK(blocks("T=8192 H=16 pool=1 h0=1 ht=1 checkpoint=64", {.load_stages = 3}) == 1);
}
