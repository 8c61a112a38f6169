// Checkpoints that chunk_wgmma's chains leave in shared memory: on any host how many at once and
// what ring that leaves by default, on the device many of them through few buffers.
#include <iterator>
#include <string>
#include <vector>

#include "abi/chunk_wgmma.h"
#include "plan/choose.hpp"
#include "plan/plan.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "strategy/chunk_wgmma.hpp"
#include "support/pool_sweep.hpp"
#include "support/scratch.hpp"
#include "support/trials.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;
using abi::chunk_wgmma::Tuning;
using strategy::chunk_wgmma;

namespace {

const std::string kPool = "T=8192 pool=1 h0=1 ht=1 ";
const std::string kKept = kPool + "checkpoint=64 ";

abi::Shape shape_in_words(const std::string& words) {
  return problem::shape_of(problem_in_words(words));
}

int buffers(const std::string& more, const Tuning& tuning) {
  return abi::chunk_wgmma::checkpoint_buffers(shape_in_words(kKept + "H=16 " + more), tuning);
}

std::string default_tuning(const std::string& words) {
  return tunable::to_text(chunk_wgmma.defaults(problem_in_words(words), h200()));
}

// One buffer and two, one warpgroup and two, and blocks that walk several sequences.
std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const char* tuning :
       {"columns=64 stages_at_once=1", "columns=64 stages_at_once=1 load_stages=6",
        "columns=64 stages_at_once=1 load_stages=1",
        "columns=64 chunk=64 prepare_threads=512 load_stages=2",
        "columns=64 chunk=16 prepare_threads=128", "columns=64 stages_at_once=2 load_stages=5",
        "columns=64 stages_at_once=2 load_stages=6", "columns=32 load_stages=6",
        "columns=32 load_stages=3 short_tokens=8",
        "columns=32 chunk=64 prepare_threads=512 load_stages=2",
        "columns=32 stages_at_once=2 load_stages=6 short_tokens=8", "warpgroups=2 load_stages=2",
        "warpgroups=2 load_stages=4", "columns=64 stages_at_once=1 short_tokens=8",
        "columns=64 stages_at_once=2 short_tokens=8"})
    out.push_back({"chunk_wgmma", tuning});
  return out;
}

// Of so few sequences that both stages run at once without one of short ones: half the columns.
std::vector<Variant> halves() {
  return {{"chunk_wgmma", "columns=32 stages_at_once=2 load_stages=6 short_tokens=1"},
          {"chunk_wgmma", "columns=32 stages_at_once=1 load_stages=2 short_tokens=1"}};
}
// And two warpgroups, who have one buffer beside a ring of four.
std::vector<Variant> by_two() {
  return {{"chunk_wgmma", "warpgroups=2 load_stages=4 stages_at_once=2 short_tokens=1"}};
}

// None to 15 of a sequence, after every chunk of 64 or more, the last ones without a column; slots
// apart by nothing, by what leaves them where no copy engine can write, and by what does not. Every
// seventh sequence is padding.
std::vector<PoolTrial> trials() {
  std::vector<PoolTrial> out;
  constexpr int kGaps[] = {0, 5, 8};  // elements
  // V = 80 ends amid a block's columns, and another head's state begins there.
  for (const char* size : {"K=128 V=128 ", "K=128 V=100 ", "K=128 V=80 ", "K=128 V=128 state=bf16 ",
                           "K=64 V=64 ", "K=64 V=80 state=bf16 "})
    for (const char* every : {"checkpoint=64 ", "checkpoint=128 ", "checkpoint=192 "}) {
      PoolTrial one;
      one.trial = trial(
          std::string("pool=1 varlen=1 ") + size + every,
          {1000, 1, 64, 300, 0, 31, 320, 33, 160, 2, 640, 96, 8, 65, 32, 9, 192, 224, 40, 352});
      SlotsSpec spec;
      spec.sequences = static_cast<int>(one.trial.lengths.size());
      spec.checkpoint_columns = 12;
      spec.prefixes = out.size() % 2 == 0;
      spec.seed = out.size();
      one.slots = make_slots(spec);
      one.gap = kGaps[out.size() % std::size(kGaps)];
      out.push_back(one);
    }
  return out;
}

std::vector<PoolTrial> few_trials() {
  std::vector<PoolTrial> out;
  for (const char* size : {"K=128 V=128 ", "K=128 V=100 state=bf16 ", "K=64 V=80 "}) {
    PoolTrial one;
    one.trial =
        trial(std::string("pool=1 varlen=1 H=1 HV=1 checkpoint=64 ") + size, {330, 0, 31, 192});
    SlotsSpec spec;
    spec.sequences = static_cast<int>(one.trial.lengths.size());
    spec.checkpoint_columns = 6;
    spec.prefixes = true;
    spec.seed = out.size();
    one.slots = make_slots(spec);
    out.push_back(one);
  }
  return out;
}

}  // namespace

TEST_CASE("two checkpoints are in shared memory where the ring leaves them room", "[strategy]") {
  CHECK(abi::chunk_wgmma::shared_limit == static_cast<int>(h200().shared_per_block));
  CHECK(buffers("", {}) == 2);
  CHECK(buffers("", {.load_stages = 5}) == 2);
  CHECK(buffers("", {.load_stages = 6}) == 1);
  CHECK(buffers("", {.load_stages = 6, .columns = 32}) == 2);
  CHECK(buffers("", {.load_stages = 7, .columns = 32}) == 1);
  CHECK(buffers("", {.warpgroups = 2}) == 1);
  CHECK(buffers("", {.warpgroups = 2, .load_stages = 2}) == 2);
  CHECK(buffers("state=bf16", {.load_stages = 6}) == 2);
  CHECK(buffers("state=bf16", {.warpgroups = 2}) == 2);
  CHECK(buffers("K=64 V=64", {.load_stages = 6}) == 2);
}

TEST_CASE("a chain's shared memory holds its checkpoints", "[strategy]") {
  const auto bytes = [](const std::string& words, const Tuning& tuning) {
    const auto recipe = chunk_wgmma.compose(problem_in_words(words), h200(),
                                            tunable::values_of(tuning, abi::chunk_wgmma::tunables));
    INFO(words << ": " << recipe.status().message());
    REQUIRE(recipe);
    return recipe->stages.at(1).shared_bytes;
  };
  const std::string none = kPool + "H=16 ", kept = kKept + "H=16 ";
  // Where the copy engine's exchange of units begins anew.  The bug, when they went out as they
  // lay: they began amid a sector wherever the barriers before them ended, and copies out of there
  // took so long that a ring of five was slower than one of four (222 us for 190).
  const auto aligned = [](std::size_t ring) { return (ring + 1023) / 1024 * 1024; };
  const auto check = [&](const std::string& more, const Tuning& tuning, int count, int each) {
    CHECK(bytes(kept + more, tuning) ==
          aligned(bytes(none + more, tuning) + 16 * count) + count * each);
  };
  check("", {}, 2, 64 * 128 * 4);
  check("", {.load_stages = 5}, 2, 64 * 128 * 4);
  check("", {.load_stages = 6}, 1, 64 * 128 * 4);
  check("", {.warpgroups = 2}, 1, 128 * 128 * 4);
  const auto halves = bytes(kept, {.load_stages = 6, .columns = 32});
  CHECK(halves == aligned(bytes(none, {.load_stages = 6}) + 16 * 2) + 2 * (32 * 128 * 4));
  check("state=bf16 K=64", {}, 2, 64 * 64 * 2);
  // From registers, without a copy.
  CHECK(bytes(kept + "layout=key_first", {}) == bytes(none, {}));
}

TEST_CASE("the default ring leaves room for two checkpoints", "[strategy]") {
  const std::string kept = kKept + "H=16 ";
  const auto ring = [&](const std::string& more) { return default_tuning(kept + more); };
  CHECK_THAT(ring("state=bf16"), contains("warpgroups=1 load_stages=6 stages_at_once=2"));
  CHECK_THAT(ring("K=64 V=64"), contains("warpgroups=1 load_stages=7 stages_at_once=2"));
  CHECK_THAT(default_tuning(kept + "mixed=1 varlen=1 N=100"),
             contains("load_stages=4 stages_at_once=2 short_tokens=8"));
  CHECK_THAT(default_tuning(kKept + "H=128"),
             contains("warpgroups=1 load_stages=4 stages_at_once=1"));
  // Those that leave from registers, and none, need no room.
  for (const std::string& words : {kept + "layout=key_first", kPool + "H=16"}) {
    INFO(words);
    CHECK_THAT(default_tuning(words), contains("load_stages=7 stages_at_once=2"));
  }
  // What a caller names stays.
  const auto choice = plan::choose(problem_in_words(kept), h200(),
                                   {.strategy = "chunk_wgmma", .tuning = "load_stages=4"});
  REQUIRE(choice);
  CHECK_THAT(tunable::to_text(choice->recipe.tuning), contains("load_stages=4 stages_at_once=2"));
}

TEST_CASE("dense checkpoints leave twice as many multiprocessors", "[strategy]") {
  const std::string wide = "load_stages=5 stages_at_once=2 short_tokens=1 columns=64";
  const std::string halves = "load_stages=6 stages_at_once=2 short_tokens=1 columns=32";
  CHECK_THAT(default_tuning(kKept + "H=16"), contains(halves));
  // One every 128 tokens of 16 heads takes 151 us by halves and 167 by whole columns.
  CHECK_THAT(default_tuning(kPool + "checkpoint=128 H=16"), contains(halves));
  CHECK_THAT(default_tuning(kPool + "checkpoint=1024 H=16"), contains(wide));
  // Where that would take too much from what prepares, and where few leave, they do not.
  CHECK_THAT(default_tuning(kKept + "H=24"), contains(wide));
  for (const char* heads : {"H=16", "H=8", "H=4"}) {
    INFO(heads);
    CHECK_THAT(default_tuning(kPool + "checkpoint=4096 " + heads), contains(wide));
  }
  CHECK_THAT(default_tuning(kPool + "H=16"), contains("columns=64"));
  const auto blocks = [](const std::string& tuning) {
    const auto choice = plan::choose(problem_in_words(kKept + "H=4 V=100"), h200(),
                                     {.strategy = "chunk_wgmma", .tuning = tuning});
    REQUIRE(choice);
    Forward forward;
    forward.tokens = 8192;
    forward.sequences = 1;
    compose::Launch launch;
    choice->recipe.stages.at(1).bind({forward, nullptr}, launch);
    return launch.grid[0];
  };
  CHECK(blocks("columns=64") == 4 * 2);
  CHECK(blocks("columns=32") == 4 * 4);
}

TEST_CASE("half a product's columns are for one warpgroup with checkpoints", "[strategy]") {
  const auto refusal = [](const std::string& words, const Tuning& tuning) {
    const auto recipe = chunk_wgmma.compose(problem_in_words(words), h200(),
                                            tunable::values_of(tuning, abi::chunk_wgmma::tunables));
    CHECK_FALSE(recipe);
    return recipe.status().message();
  };
  CHECK_THAT(refusal(kPool + "H=16", {.columns = 32}), contains("checkpoint_tokens = 0"));
  CHECK_THAT(refusal(kKept + "H=16 layout=key_first", {.columns = 32}),
             contains("layout key_first"));
  CHECK_THAT(refusal(kKept + "H=16 K=100", {.columns = 32}), contains("K = 100"));
  CHECK_THAT(refusal(kKept + "H=16", {.warpgroups = 2, .columns = 32}),
             contains("columns=32 with warpgroups=2"));
}

TEST_CASE("checkpoints through few buffers compose", "[strategy]") {
  const Tally tally = compose_only("checkpoints", plain(trials()), "sm_90a", variants());
  CHECK(tally.failed == 0);
  CHECK(tally.refused == 0);
  const Tally few = compose_only("few checkpoints", plain(few_trials()), "sm_90a", halves());
  CHECK(few.failed == 0);
  CHECK(few.refused == 0);
  const Tally two = compose_only("few checkpoints", plain(few_trials()), "sm_90a", by_two());
  CHECK(two.failed == 0);
  CHECK(two.passed > 0);  // some are refused: odd columns, say
}

TEST_CASE("chains that leave checkpoints do not spill", "[strategy][compile]") {
  const Scratch cache;
  const auto check = [&](const std::string& words, const char* tuning) {
    const std::vector<Problem> one = {problem_in_words(kKept + words)};
    const auto plans = plan::make_all(one, {.target = "sm_90a",
                                            .cache_dir = cache.path(),
                                            .strategy = "chunk_wgmma",
                                            .tuning = tuning});
    INFO(words << ", " << tuning << ": " << plans[0].status().message());
    REQUIRE(plans[0]);
    for (const program::Kernel& kernel : (*plans[0])->program.kernels)
      CHECK(kernel.resources.spill_bytes == 0);
  };
  for (const char* tuning :
       {"columns=64 stages_at_once=1", "columns=64 stages_at_once=2 load_stages=6",
        "columns=32 stages_at_once=2 load_stages=6 short_tokens=1",
        "columns=64 stages_at_once=2 short_tokens=8", "warpgroups=2 load_stages=2"})
    check("H=4 varlen=1", tuning);
  check("H=32 varlen=1", "warpgroups=2 load_stages=4 stages_at_once=2");
  // The bug: of half the columns, or of chunks of 16, a lane has eight pairs of elements, of which
  // rows that lie on no 16 bytes wanted sixteen at once: no plan for V = 100 and dense checkpoints.
  for (const char* tuning : {"", "columns=32 stages_at_once=2 load_stages=6 short_tokens=1",
                             "chunk=16 prepare_threads=128"}) {
    check("H=4 varlen=1 V=100", tuning);
    check("H=4 V=33", tuning);
  }
}

TEST_CASE("many checkpoints through few buffers, on the device", "[gpu]") {
  check_pools_on_device("checkpoints through few buffers", trials(), variants());
}

TEST_CASE("checkpoints by two warpgroups beside groups, on the device", "[gpu]") {
  check_pools_on_device("checkpoints by two warpgroups", few_trials(), by_two());
}

// The bug: racecheck reported races where checkpoints leave element by element (V = 100 here), as
// one lane handed the buffer back for all that had read it.
TEST_CASE("checkpoints by half the columns, on the device", "[gpu][sanitize]") {
  check_pools_on_device("checkpoints by halves", few_trials(), halves());
}
