// chunk_wgmma's defaults, and what its kernels and the planner agree on of memory.
#include "strategy/chunk_wgmma.hpp"

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "abi/chunk.h"
#include "abi/chunk_wgmma.h"
#include "compile/nvrtc.hpp"
#include "plan/plan.hpp"
#include "problem/shape.hpp"
#include "program/program.hpp"
#include "strategy/pick.hpp"
#include "support/catch.hpp"
#include "support/new_kernels.hpp"
#include "support/scratch.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::test;
using abi::chunk_wgmma::Tuning;

namespace {

std::string default_tuning(const std::string& words) {
  return tunable::to_text(strategy::chunk_wgmma.defaults(problem_in_words(words), h200()));
}

std::size_t occurrences(std::string_view text, std::string_view words) {
  std::size_t count = 0;
  for (std::size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++count;
  return count;
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

TEST_CASE("chains of a few brief sequences bring their states while chunks are prepared",
          "[strategy]") {
  const auto lets_begin = [](const std::string& words, std::int64_t tokens, int sequences) {
    const Problem problem = problem_in_words(words);
    const auto recipe = strategy::chunk_wgmma.compose(
        problem, h200(), strategy::chunk_wgmma.defaults(problem, h200()));
    REQUIRE(recipe);
    REQUIRE(recipe->stages[0].file == "chunk/prepare_group.cu");
    Forward forward{.tokens = tokens, .sequences = sequences};
    problem::fill_strides(problem, forward);
    compose::Launch launch;
    recipe->stages[0].bind({forward, nullptr}, launch);
    abi::chunk::PrepareArgs args;
    REQUIRE(launch.args_bytes == sizeof args);
    std::memcpy(&args, launch.args, sizeof args);
    return args.lets_begin == 1;
  };
  const std::string brief = "H=16 varlen=1 T=4096 N=64";
  CHECK(lets_begin(brief, 2048, 64));  // 128 chunk slots of 16 heads
  CHECK_FALSE(lets_begin(brief, 4096, 64));
  // Longer chains, of narrow states two a multiprocessor and of others one.
  CHECK(lets_begin("H=32 K=64 V=64 N=32 T=1024", 1024, 32));
  CHECK_FALSE(lets_begin("H=32 K=64 V=64 N=4 T=1024", 1024, 4));
  CHECK_FALSE(lets_begin("T=8192 H=72", 8192, 1));
  CHECK_FALSE(lets_begin("T=8192 H=72", 1024, 1));
}

// What checkpoints cost dense runs was taken of a mixed pack's prefill, too, so that it no longer
// ran beside prepare, which nobody had measured.
TEST_CASE("a mixed pack with checkpoints is prepared beside its chains", "[strategy]") {
  const std::string mixed = "varlen=1 mixed=1 pool=1 h0=1 ht=1 checkpoint=64 ";
  for (const char* size : {"T=8448 N=257 H=8", "T=4160 N=65 H=8", "T=4160 N=65 H=12"}) {
    INFO(size);
    CHECK_THAT(default_tuning(mixed + size), contains("stages_at_once=2"));
  }
}

// On an H100 16 heads took 155 us with all that chains leave preparing, 135 with 64 percent of it.
TEST_CASE("groups do not run far ahead of chains where memory cannot hide it", "[strategy]") {
  const auto preparers = [](const char* words, const device::Device& device) {
    const tunable::Values values = strategy::chunk_wgmma.defaults(problem_in_words(words), device);
    return tunable::tuning_of<abi::chunk_wgmma::Tuning>(values, abi::chunk_wgmma::tunables)
        .preparers;
  };
  CHECK(preparers("T=8192 H=16", h100()) == 64);
  CHECK(preparers("T=8192 H=24", h100()) == 86);
  CHECK(preparers("T=8192 N=4 H=8", h100()) == 72);  // by two warpgroups
  CHECK(preparers("T=8448 N=257 H=16 varlen=1 mixed=1", h100()) == 86);
  CHECK(preparers("T=8192 H=24", h200()) == 100);
  CHECK(preparers("T=8448 N=257 H=16 varlen=1 mixed=1", h200()) == 100);
  // As packs of one 16 and 32 heads take 121 and 203 us, with all preparing 123 and 211.
  for (const char* words : {"T=8192 H=16", "T=8192 H=32", "T=131072 H=32", "T=8192 H=16 varlen=1",
                            "T=8192 H=32 varlen=1"}) {
    CHECK(preparers(words, h200()) == 86);
  }
  // Where rows of g are wider, or more is made of them, and groups are done with the chains: 32
  // heads took 221 us by bounded gates of 32 bits, 205 with 86 percent; 18 heads 131 and 123.
  for (const char* words :
       {"T=8192 H=32 g=f32 beta=f32", "T=8192 H=32 gate=softplus", "T=8192 H=32 gate=log_decay",
        "T=8192 H=32 gate=softplus g=f32", "T=16384 H=32 gate=softplus", "T=8192 H=18",
        "T=4096 H=32", "T=4096 H=32 gate=log_decay g=f32 beta=f32"}) {
    INFO(words);
    CHECK(preparers(words, h200()) == 86);
  }
  // Of log decays of 32 bits they are ahead all the same: 229 and 454 us, 218 and 415 with 72.
  for (const char* words : {"T=8192 H=32 gate=log_decay g=f32 beta=f32",
                            "T=16384 H=32 gate=log_decay g=f32 beta=f32"}) {
    INFO(words);
    CHECK(preparers(words, h200()) == 72);
  }
  // And as a pack 223 us, with 86 234, with 72 222.
  CHECK(preparers("T=8192 H=32 varlen=1 gate=log_decay g=f32 beta=f32", h200()) == 100);
  // But not where chains are brief, or wait for groups.
  for (const char* words :
       {"T=1024 H=32", "T=2048 H=32", "T=2048 H=16", "T=4096 H=32 gate=softplus", "T=8192 H=36",
        "T=8192 H=20", "T=4096 H=18", "T=8192 H=20 varlen=1"}) {
    INFO(words);
    CHECK(preparers(words, h200()) == 100);
  }
  // Nor beside chains that send checkpoints, and here everything prepared: 24 heads with one every
  // 64 tokens took 227 us, 208 with 72 percent; of few checkpoints that many would be too few.
  const std::string kept = "T=8192 pool=1 h0=1 ht=1 ";
  CHECK(preparers((kept + "checkpoint=64 H=16").c_str(), h200()) == 86);
  CHECK(preparers((kept + "checkpoint=1024 H=16").c_str(), h200()) == 72);
  CHECK(preparers((kept + "checkpoint=64 H=24").c_str(), h200()) == 72);
  CHECK(preparers((kept + "checkpoint=1024 H=24").c_str(), h200()) == 100);
  CHECK(preparers((kept + "checkpoint=64 H=12").c_str(), h200()) == 72);
  // 24 heads of K = 64 take 135 us by 72 percent, 117 by all.
  CHECK(preparers((kept + "checkpoint=64 H=24 K=64 V=64").c_str(), h200()) == 100);
  CHECK(preparers((kept + "checkpoint=64 H=16").c_str(), h100()) == 100);
  CHECK(preparers((kept + "checkpoint=64 H=16 varlen=1").c_str(), h200()) == 86);

  // How many prepare is the grid's: one kernel serves all.
  const Problem problem = problem_in_words("T=8192 H=16");
  const auto values_of = [](const Problem& of, int percent) {
    tunable::Values values = strategy::chunk_wgmma.defaults(of, h200());
    for (auto& [name, value] : values) {
      if (name == "preparers") value = percent;
    }
    return values;
  };
  const auto recipe_of = [&](int percent) {
    const tunable::Values values = values_of(problem, percent);
    const auto recipe = strategy::chunk_wgmma.compose(problem, h200(), values);
    REQUIRE(recipe);
    return *recipe;
  };
  const compose::Recipe all = recipe_of(100), some = recipe_of(64);
  for (std::size_t i = 0; i < all.stages.size(); ++i) {
    CHECK(all.stages[i].prelude == some.stages[i].prelude);
  }
  const auto blocks = [&](const compose::Recipe& recipe) {
    const Forward forward{.tokens = 8192, .sequences = 1};
    compose::Launch launch;
    recipe.stages[0].bind({forward, nullptr}, launch);
    return launch.grid[0];
  };
  CHECK(blocks(all) == 100);
  CHECK(blocks(some) == 64);
  const Problem many = problem_in_words("T=8192 H=72");
  const auto refused = strategy::chunk_wgmma.compose(many, h200(), values_of(many, 64));
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.status().message(), contains("preparers=64 with stages_at_once=1"));
}

// The bug: chains were expected to take a tenth to a fifth longer than they do and groups of packs
// a tenth shorter, so that 32 heads of a pack went by one warpgroup a block, 265 us on an H200, and
// 32 of 4096 tokens, 119, 12 heads of a pack by segments, 139, and beside a few decodes, 175, 24
// heads of 16384 tokens by 86 percent, 299.
TEST_CASE("runs are planned by what an H200 takes", "[strategy]") {
  const char* const kPack = "varlen=1 pool=1 h0=1 ht=1 ";
  const char* const kDense = "h0=1 ht=1 ";
  const char* const kKept = "pool=1 h0=1 ht=1 ";
  struct Row {
    const char *kind, *words, *tuning;
    double microseconds;  // as measured, weak gates
  };
  for (const Row& row :
       {Row{kPack, "T=8192 H=12", "warpgroups=1 load_stages=7 stages_at_once=2", 118},
        Row{kPack, "T=8192 H=20", "warpgroups=1 load_stages=7 stages_at_once=2", 135},
        Row{kPack, "T=8192 H=24", "warpgroups=1 load_stages=7 stages_at_once=2", 160},
        Row{kPack, "T=8192 H=28", "warpgroups=1 load_stages=7 stages_at_once=2", 196},
        Row{kPack, "T=8192 H=32", "warpgroups=2 load_stages=6 stages_at_once=2", 206},
        Row{kPack, "T=8192 H=40", "warpgroups=2 load_stages=6 stages_at_once=2", 249},
        Row{kPack, "T=2048 H=32", "warpgroups=2 load_stages=6 stages_at_once=2", 66},
        Row{kPack, "T=16384 H=32", "warpgroups=2 load_stages=6 stages_at_once=2", 419},
        Row{kPack, "T=8192 H=8 checkpoint=256", "columns=32 preparers=72", 129},
        Row{kPack, "T=8192 H=12 checkpoint=1024", "columns=64 preparers=72", 127},
        Row{kPack, "T=8192 H=16 checkpoint=64", "columns=32 preparers=86", 166},
        Row{kPack, "T=8192 H=20 checkpoint=256", "columns=64 preparers=86", 156},
        Row{kPack, "T=8192 H=32 checkpoint=1024", "warpgroups=2 load_stages=4 stages_at_once=2",
            232},
        Row{kPack, "T=8192 H=32 checkpoint=256", "warpgroups=1 load_stages=5 stages_at_once=2",
            249},
        Row{kPack, "T=8192 H=32 checkpoint=64", "warpgroups=1 load_stages=5 stages_at_once=2", 269},
        Row{kPack, "T=8192 N=4 H=12 mixed=1", "stages_at_once=2 short_tokens=8", 123},
        Row{kPack, "T=8224 N=33 H=8 mixed=1", "stages_at_once=2 short_tokens=8", 123},
        Row{kPack, "T=32768 N=4 H=12 mixed=1", "stages_at_once=2 short_tokens=8", 442},
        Row{kPack, "T=8192 H=16 K=64 V=64", "preparers=86", 89},
        Row{kPack, "T=8192 H=24 K=64 V=64", "preparers=100", 100},
        Row{kDense, "T=8192 H=16", "warpgroups=1 load_stages=7 stages_at_once=2", 120},
        Row{kDense, "T=8192 H=24", "warpgroups=1 load_stages=7 stages_at_once=2", 148},
        Row{kDense, "T=16384 H=24", "columns=64 preparers=100", 282},
        Row{kDense, "T=4096 H=32", "warpgroups=2 load_stages=6 stages_at_once=2", 110},
        Row{kDense, "T=8192 H=40", "warpgroups=2 load_stages=6 stages_at_once=2", 229},
        Row{kDense, "T=8192 N=2 H=16", "warpgroups=2 load_stages=6 stages_at_once=2", 110},
        Row{kDense, "T=8192 H=12 V=256", "warpgroups=1 load_stages=7 stages_at_once=2", 118},
        Row{kDense, "T=8192 H=16 K=64 V=128", "preparers=100", 88},
        Row{kKept, "checkpoint=256 T=8192 H=40", "warpgroups=2 load_stages=4 stages_at_once=2",
            270},
        Row{kKept, "checkpoint=256 T=8192 H=24", "columns=64 preparers=86", 173},
        Row{kKept, "checkpoint=1024 T=8192 H=16", "columns=64 preparers=72", 140}}) {
    INFO(row.kind << row.words);
    const Problem problem = problem_in_words(std::string(row.kind) + row.words);
    const auto pick = strategy::pick(problem, h200(), "", "");
    REQUIRE(pick);
    CHECK(pick->recipe.strategy == "chunk_wgmma");
    CHECK_THAT(tunable::to_text(pick->recipe.tuning), contains(row.tuning));
    const double expected = strategy::chunk_wgmma.estimate(problem, h200(), pick->recipe.tuning);
    CHECK(expected == Approx(row.microseconds).epsilon(0.08));
  }
}

// The bug: that groups of log decays of 32 bits are held back, which was measured of dense runs of
// one size, made packs and checkpoints of them seem to take less than those of 16 bits.
TEST_CASE("log decays of 32 bits are not expected to be faster than of 16", "[strategy]") {
  const std::string dense = "T=8192 H=32 gate=log_decay";
  const auto expected = [](const std::string& words, const device::Device& device) {
    const Problem problem = problem_in_words(words);
    tunable::Values values = strategy::chunk_wgmma.defaults(problem, device);
    for (auto& [name, value] : values) {
      if (name == "preparers") value = 72;
      if (name == "warpgroups") value = 2;
    }
    return strategy::chunk_wgmma.estimate(problem, device, values);
  };
  const std::string kept = " pool=1 h0=1 ht=1 checkpoint=1024";
  for (const std::string& words : {dense + " varlen=1", dense + kept, dense + kept + " varlen=1"}) {
    INFO(words);
    CHECK(expected(words + " g=f32", h200()) > expected(words, h200()));
  }
  CHECK(expected(dense + " g=f32", h100()) > expected(dense, h100()));
  CHECK(expected(dense + " g=f32", h200()) < expected(dense, h200()));  // as measured
}

TEST_CASE("packs of two sequences go by chains, uneven ones of more by segments", "[strategy]") {
  // Two of 6000 and 2192, and of 4096 tokens, take 97 and 73 us on an H200, by both ways 107 and
  // 82; 7000, 300, 700 and 192 take 118, as by segments, which take 84 where gates forget.
  const auto strategy = [](const char* words) {
    const auto pick = strategy::pick(problem_in_words(words), h200(), "", "");
    REQUIRE(pick);
    return pick->recipe.strategy;
  };
  CHECK(strategy("T=8192 N=2 H=8 varlen=1 pool=1 h0=1 ht=1") == "chunk_wgmma");
  CHECK(strategy("T=8192 N=4 H=8 varlen=1 pool=1 h0=1 ht=1") == "segments");
}

// The bug: of K = 64, of which three groups fit a multiprocessor and not four, groups were expected
// to take two thirds of what they do and chains half as long again.
TEST_CASE("K and V of 64 are planned by what an H200 takes", "[strategy]") {
  const auto tuning = [](const char* words) {
    const auto pick = strategy::pick(problem_in_words(std::string("K=64 V=64 h0=1 ht=1 ") + words),
                                     h200(), "", "");
    REQUIRE(pick);
    CHECK(pick->recipe.strategy == "chunk_wgmma");
    return tunable::to_text(pick->recipe.tuning);
  };
  CHECK_THAT(tuning("T=8192 H=64"), contains("stages_at_once=1"));  // 296 us, at once 368
  CHECK_THAT(tuning("T=8192 H=32"), contains("preparers=100"));     // 146 us, by 86 percent 169
  CHECK_THAT(tuning("T=8192 H=16"), contains("preparers=86"));      // 86 us, by segments 100
  CHECK_THAT(tuning("T=8192 H=24 varlen=1 pool=1"), contains("preparers=100"));  // 100, 113
}

// Dense checkpoints hold two warpgroups up, 8 heads 330 us for 157; of other devices nobody has
// measured it.
TEST_CASE("two warpgroups send few checkpoints", "[strategy]") {
  const auto by_two = [](const std::string& words, const device::Device& device) {
    const Problem problem = problem_in_words("T=8192 pool=1 h0=1 ht=1 " + words);
    const tunable::Values values = strategy::chunk_wgmma.defaults(problem, device);
    return tunable::tuning_of<abi::chunk_wgmma::Tuning>(values, abi::chunk_wgmma::tunables)
               .warpgroups > 1;
  };
  CHECK(by_two("H=32 varlen=1 checkpoint=1024", h200()));
  CHECK_FALSE(by_two("H=32 varlen=1 checkpoint=256", h200()));  // by one 249 us, 245
  CHECK_FALSE(by_two("H=32 varlen=1 checkpoint=1024", h100()));
  CHECK_FALSE(by_two("H=32 checkpoint=256", h200()));  // by one 236 us, 237
  CHECK(by_two("H=40 checkpoint=256", h200()));        // 270 us, by one 372
}

TEST_CASE("both stages at once by as many blocks as leave enough to prepare", "[strategy]") {
  CHECK_THAT(default_tuning("T=8192 H=16"),
             contains("warpgroups=1 load_stages=7 stages_at_once=2"));
  CHECK_THAT(default_tuning("T=8192 H=24"),
             contains("warpgroups=1 load_stages=7 stages_at_once=2"));
  // Twice the columns a block, whose rows leave room for a ring of six.
  CHECK_THAT(default_tuning("T=8192 H=32"),
             contains("warpgroups=2 load_stages=6 stages_at_once=2"));
  CHECK_THAT(default_tuning("T=8192 H=32 V=64"), contains("warpgroups=1"));
  CHECK_THAT(default_tuning("T=8192 H=72"), contains("load_stages=4 stages_at_once=1"));
  // What has not been measured in f16 keeps what was.
  CHECK_THAT(default_tuning("T=8192 H=64 qkv=f16"), contains("load_stages=4 stages_at_once=1"));
  // Five blocks of the short stage find room beside a ring of six, one beside seven.
  CHECK_THAT(default_tuning("T=16384 H=16 N=100 varlen=1 mixed=1 h0=1 ht=1"),
             contains("load_stages=6 stages_at_once=2 short_tokens=8"));
}

// The bug: of tunings that the model cannot tell apart the first was taken, a ring of one.
TEST_CASE("a ring too deep for what the caller names becomes the deepest that fits", "[strategy]") {
  const auto choice = plan::choose(problem_in_words("T=8192 H=16"), h200(),
                                   {.strategy = "chunk_wgmma", .tuning = "warpgroups=2"});
  REQUIRE(choice);
  CHECK_THAT(tunable::to_text(choice->recipe.tuning),
             contains("warpgroups=2 load_stages=6 stages_at_once=2"));
}

// The bug: two neighbouring channels of a final state, a float2 to us, were two stores to the
// compiler, each of which wrote half of every sector; brief sequences took up to 29% longer.
TEST_CASE("final states leave in stores of eight bytes", "[strategy][compile]") {
  const Problem problem = problem_in_words("T=2048 N=32 H=16 varlen=1 h0=1 ht=1");
  for (const char* name : {"chunk_wgmma", "chunk"}) {
    INFO(name);
    const auto choice = plan::choose(problem, h200(), {.strategy = name});
    REQUIRE(choice);
    const auto unit = program::unit_of(choice->recipe.stages.at(1), h200());
    REQUIRE(unit);
    const auto ptx = compile::compile_to_ptx(unit->job, program::headers());
    INFO(ptx.status().message());
    REQUIRE(ptx);
    // A thread holds 16 columns of 128 channels with its warp.
    CHECK(occurrences(*ptx, "st.global.v2.f32") >= 16 * 128 / 32 / 2);
  }
}

TEST_CASE("brief sequences' default does not spill", "[strategy][compile]") {
  std::vector<Wanted> wanted;
  for (const char* more :
       {"H=16 h0=1 ht=1", "H=4 HV=64 h0=1 ht=1", "H=16 V=256", "H=32 K=64 h0=1 ht=1",
        "H=32 K=64 V=64 h0=0 ht=1", "H=16 l2norm=0 qk_normalized=1 h0=1 ht=1",
        "H=16 h0=1 ht=1 state=bf16", "H=16 h0=1 ht=1 layout=key_first",
        "H=16 pool=1 h0=1 ht=1 zero_padding=1",
        "H=16 pool=1 h0=1 ht=1 state=bf16 layout=key_first slots=i64"}) {
    wanted.push_back(
        {problem_in_words(std::string("T=2048 N=32 varlen=1 ") + more), "h200", "chunk_wgmma", ""});
  }
  const Scratch cache;
  int chains = 0;
  for (const NewOnes& made : NewKernels(cache.path()).make(wanted)) {
    INFO(made.tuning << ": " << made.status.message());
    REQUIRE(made.status);
    CHECK_THAT(made.tuning, contains("warpgroups=1 load_stages=3"));
    for (const program::Kernel& kernel : made.kernels) {
      CHECK(kernel.resources.spill_bytes == 0);
      if (kernel.stage.name != "recurrence") continue;
      CHECK(kernel.resources.registers <= 168);
      ++chains;
    }
  }
  CHECK(chains == 10);
}

// What outputs alone read comes first, so that one copy brings what a chain wants.
TEST_CASE("a chunk's image is tiles one after another, each where a swizzle pattern starts",
          "[strategy]") {
  for (const char* words : {"H=16", "H=16 K=64", "H=16 K=33", "H=16 neg_eigval=1", "H=16 qkv=f16",
                            "H=16 qkv=f32", "H=16 K=256"}) {
    const abi::Shape shape = problem::shape_of(problem_in_words(words));
    for (const int chunk : {16, 32, 64}) {
      INFO(words << " chunk " << chunk);
      const abi::chunk::Image image = abi::chunk::image(shape, chunk);
      const int bytes = abi::bytes_of(shape.qkv_type);
      const int factor = abi::chunk::tile_bytes(chunk, abi::chunk::factor_keys(shape), bytes);
      const int square = abi::chunk::tile_bytes(chunk, chunk, bytes);
      CHECK(image.qd == 0);
      CHECK(image.aq >= image.qd + factor);
      CHECK(image.kd >= image.aq + square);
      CHECK(image.ak >= image.kd + factor);
      const bool twice = abi::chunk::writes_twice(shape);
      if (twice) CHECK(image.ak_rest >= image.ak + factor);
      CHECK(image.decay >= (twice ? image.ak_rest : image.ak) + factor);
      CHECK(image.bytes == image.decay + 4 * abi::chunk::factor_keys(shape));
      for (const int tile : {image.qd, image.aq, image.kd, image.ak, image.ak_rest}) {
        CHECK(tile % 1024 == 0);
      }
      CHECK(image.bytes % 16 == 0);
    }
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
  // The bug: two blocks with checkpoints had 168 registers a thread and spilled (a ring of one).
  CHECK(blocks("T=8192 H=16 pool=1 h0=1 ht=1 checkpoint=64", {.load_stages = 1}) == 1);
}
