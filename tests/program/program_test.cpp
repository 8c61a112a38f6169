#include "program/program.hpp"

#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "cache/bundle.hpp"
#include "plan/choose.hpp"
#include "problem/problem.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

using namespace kda;

namespace {

const device::Device& device_named(const char* name) {
  static const device::Device h200 = *device::parse("h200");
  static const device::Device l40s = *device::parse("l40s");
  return std::string(name) == "h200" ? h200 : l40s;
}

// A small recipe of one stage.
compose::Recipe recipe_of(int key_dim, const char* target = "h200") {
  const auto problem =
      problem::complete({.heads = 2, .key_dim = key_dim, .value_dim = 16, .max_tokens = 8});
  REQUIRE(problem);
  auto choice = plan::choose(*problem, device_named(target), {.strategy = "recurrent"});
  REQUIRE(choice);
  REQUIRE(choice->recipe.stages.size() == 1);
  return choice->recipe;
}

std::string key_of(const compose::Stage& stage, const char* target = "h200") {
  const auto unit = program::unit_of(stage, device_named(target));
  REQUIRE(unit);
  return unit->key.digest();
}

}  // namespace

TEST_CASE("a key is what the cubin depends on, and no more", "[program]") {
  const compose::Stage stage = recipe_of(32).stages[0];
  const std::string key = key_of(stage);
  CHECK(key == key_of(recipe_of(32).stages[0]));

  compose::Stage other = stage;
  other.prelude += "#define KDA_OTHER\n";
  CHECK(key_of(other) != key);
  other = stage;
  other.entry = "kda_other";
  CHECK(key_of(other) != key);
  CHECK(key_of(stage, "l40s") != key);

  other = stage;
  other.name = "renamed";
  other.threads = 64;
  other.shared_bytes = 1024;
  CHECK(key_of(other) == key);
}

TEST_CASE("a key names its parts", "[program]") {
  const auto unit = program::unit_of(recipe_of(32).stages[0], device_named("h200"));
  REQUIRE(unit);
  std::set<std::string> names;
  for (const auto& [name, value] : unit->key.fields()) {
    names.insert(name);
    CHECK_FALSE(value.empty());
  }
  CHECK(names == std::set<std::string>{"schema", "entry", "source", "templates", "option", "target",
                                       "compiler"});
  CHECK(unit->job.target == "sm_90a");
  CHECK(unit->path == "sm80/recurrent/step.cu");
}

TEST_CASE("a recipe becomes kernels with their resources; built once, then found",
          "[program][compile]") {
  const test::Scratch directory;
  {
    cache::Cache cache(directory.path());
    const auto built = program::build(recipe_of(32), device_named("h200"), cache);
    INFO(built.status().message());
    REQUIRE(built);
    REQUIRE(built->kernels.size() == 1);
    CHECK(built->recipe.stages.empty());
    CHECK(built->recipe.strategy == "recurrent");
    const program::Kernel& kernel = built->kernels[0];
    CHECK(kernel.path == "sm80/recurrent/step.cu");
    CHECK(kernel.resources.registers > 0);
    CHECK(kernel.origin == cache::Origin::built);
    CHECK_FALSE(kernel.module);  // the device is only named

    const auto again = program::build(recipe_of(32), device_named("h200"), cache);
    REQUIRE(again);
    CHECK(again->kernels[0].origin == cache::Origin::memory);
  }
  cache::Cache later(directory.path());
  const auto found = program::build(recipe_of(32), device_named("h200"), later);
  REQUIRE(found);
  CHECK(found->kernels[0].origin == cache::Origin::disk);
  CHECK(found->kernels[0].resources.registers > 0);
}

TEST_CASE("equal stages of several recipes are built once, and a failure stays its own",
          "[program][compile]") {
  const test::Scratch directory;
  cache::Cache cache(directory.path());
  std::vector<compose::Recipe> recipes = {recipe_of(24), recipe_of(24), recipe_of(24),
                                          recipe_of(40)};
  recipes[1].stages[0].prelude = "#error \"no such shape\"\n";
  const auto programs = program::build_all(std::move(recipes), device_named("h200"), cache, 4);
  REQUIRE(programs.size() == 4);
  REQUIRE(programs[0]);
  REQUIRE(programs[2]);
  REQUIRE(programs[3]);
  CHECK((programs[0]->kernels[0].origin == cache::Origin::built) !=
        (programs[2]->kernels[0].origin == cache::Origin::built));
  CHECK(programs[3]->kernels[0].origin == cache::Origin::built);

  CHECK(programs[1].status().code() == Code::compile_failed);
  CHECK_THAT(programs[1].status().message(), test::contains("no such shape"));
  CHECK(program::build_all({}, device_named("h200"), cache).empty());
}

// The bug: one of twenty default kernels of strategy recurrent spilt, by the compiler's whim.
TEST_CASE("a kernel that spills gives way to one for fewer blocks", "[program][compile]") {
  const auto problem = problem::complete({.heads = 2, .max_tokens = 64, .max_sequences = 8});
  REQUIRE(problem);
  const device::Device& h200 = device_named("h200");
  compose::Recipe recipe = plan::choose(*problem, h200, {.strategy = "recurrent"})->recipe;
  compose::Stage& stage = recipe.stages[0];
  REQUIRE(stage.roomier);
  CHECK_THAT(stage.roomier(1), test::contains(".spare = "));
  CHECK(stage.roomier(99).empty());
  // As many blocks as only fit if it spills.
  const std::string fits = stage.prelude;
  std::string crowded = stage.roomier(1);
  const std::size_t at = crowded.find(".spare = ") + 9;
  crowded.replace(at, crowded.find_first_of(",}", at) - at, "-12");
  stage.prelude = crowded;
  const auto ever_fewer = stage.roomier;
  stage.roomier = [&](int spilt) { return spilt == 1 ? fits : ever_fewer(spilt - 1); };

  const test::Scratch directory;
  for (const auto origin : {cache::Origin::built, cache::Origin::disk}) {
    cache::Cache cache(directory.path());
    const auto program = program::build(recipe, h200, cache);
    REQUIRE(program);
    const program::Kernel& kernel = program->kernels[0];
    CHECK(kernel.resources.spill_bytes == 0);
    CHECK(kernel.origin == origin);
    REQUIRE_FALSE(kernel.spilt.empty());
    CHECK(kernel.spilt[0] == crowded);
    CHECK(kernel.stage.prelude != crowded);
  }
  // Nothing is better than the last.
  stage.roomier = [&](int spilt) { return spilt == 1 ? crowded : std::string(); };
  cache::Cache cache(directory.path());
  const auto program = program::build(recipe, h200, cache);
  REQUIRE(program);
  CHECK(program->kernels[0].resources.spill_bytes > 0);
}

// The bug: kda-tune tune and build, and Effort::measure, took as many threads as cores.
TEST_CASE("KDA_JIT_THREADS says how many compile where nobody else does", "[program]") {
  const test::Environment three("KDA_JIT_THREADS", "3");
  CHECK(program::default_threads() == 3);
}

TEST_CASE("a failing compile fails again and is not remembered", "[program][compile]") {
  const test::Scratch directory;
  cache::Cache cache(directory.path());
  for (int attempt = 0; attempt < 2; ++attempt) {
    compose::Recipe recipe = recipe_of(32);
    recipe.stages[0].entry = "kda_no_such_kernel";
    const auto program = program::build(std::move(recipe), device_named("h200"), cache);
    CHECK(program.status().code() == Code::compile_failed);
    CHECK_THAT(program.status().message(), test::contains("kda_no_such_kernel"));
  }
}

TEST_CASE("more shared memory than the device gives is refused with both numbers", "[program]") {
  cache::Cache cache("");
  compose::Recipe recipe = recipe_of(32, "l40s");
  recipe.stages[0].shared_bytes = 101377;
  const auto program = program::build(std::move(recipe), device_named("l40s"), cache);
  CHECK(program.status().code() == Code::unsupported);
  CHECK_THAT(program.status().message(), test::contains("101377 bytes of shared memory"));
  CHECK_THAT(program.status().message(), test::contains("NVIDIA L40S gives 101376"));
}

TEST_CASE("a stage without a template is refused", "[program]") {
  cache::Cache cache("");
  compose::Recipe recipe = recipe_of(32);
  recipe.stages[0].file = "recurrent/nothing.cu";
  const auto program = program::build(std::move(recipe), device_named("h200"), cache);
  CHECK(program.status().code() == Code::unsupported);
  CHECK_THAT(program.status().message(), test::contains("recurrent/nothing.cu"));
}

// The bug: a program that never compiles was told to make a bundle, and not that the one which it
// has cannot be read, or is not looked at.
TEST_CASE("who misses a kernel learns why KDA_CACHE_PATH has not been read", "[program]") {
  const test::Scratch directory;
  const test::Environment jit("KDA_JIT", "off"), path("KDA_CACHE_PATH", "/nonexistent.kdab");
  const auto message = [&](base::env::CacheMode mode) {
    cache::Cache cache(directory.path(), mode);
    return program::build(recipe_of(32), device_named("h200"), cache).status().message();
  };
  CHECK_THAT(message(base::env::CacheMode::read_write), test::contains("KDA_JIT=off") &&
                                                            test::contains("KDA_CACHE_PATH: ") &&
                                                            test::contains("/nonexistent.kdab"));
  CHECK_THAT(message(base::env::CacheMode::off),
             test::contains("KDA_CACHE=off: KDA_CACHE_PATH is not read"));
}

// The bug: who asks for this machine's own code was told that no bundle holds the kernel, and not
// that bundles were passed by for it.
TEST_CASE("who misses a kernel learns that bundles were passed by", "[program]") {
  const test::Scratch scratch;
  REQUIRE(base::file::publish(scratch.path(), scratch / "k.kdab", cache::encode_bundle({})) == 0);
  const test::Environment jit("KDA_JIT", "off"), path("KDA_CACHE_PATH", scratch / "k.kdab");
  const auto message = [&] {
    cache::Cache cache(scratch / "c");
    return program::build(recipe_of(32), device_named("h200"), cache).status().message();
  };
  CHECK_THAT(message(), !test::contains("passes by"));
  for (const char* name : {"KDA_STRICT_TOOLCHAIN", "NVRTC_APPEND_FLAGS"}) {
    const test::Environment asked(name, name[0] == 'K' ? "1" : "-lineinfo");
    CHECK_THAT(message(), test::contains(std::string("; ") + name));
  }
}

TEST_CASE("apart: what is said of a missed kernel", "[.]") {
  cache::Cache cache(base::env::get("KDA_CACHE_DIR"));
  const auto program = program::build(recipe_of(32), device_named("h200"), cache);
  REQUIRE_FALSE(program);
  CHECK(program.status().code() == Code::compile_failed);
  std::cout << "said: " << program.status().message() << "\n";
}

// The bug: where there is no NVRTC, for which bundles are made, a mistyped KDA_CACHE_PATH was never
// mentioned, nor KDA_JIT=off and bundles: only that a CUDA toolkit was to be installed.
TEST_CASE("who neither compiles nor has a compiler learns of bundles first", "[program]") {
  const test::Scratch directory;
  const auto said = [&](const char* jit) {
    const test::Outcome outcome = test::run_case_apart(
        "apart: what is said of a missed kernel", {{"KDA_JIT", jit},
                                                   {"KDA_NVRTC_PATH", "/nonexistent"},
                                                   {"KDA_CACHE_PATH", "/nonexistent/kernls.kdab"},
                                                   {"KDA_CACHE_DIR", directory.path()}});
    INFO(outcome.output);
    REQUIRE(outcome.code == 0);
    const std::size_t begin = outcome.output.find("said: ");
    REQUIRE(begin != std::string::npos);
    return outcome.output.substr(begin);
  };
  const std::string off = said("off");
  CHECK_THAT(off, test::contains("said: KDA_JIT=off, and no cache or bundle holds ") &&
                      test::contains("(key ") && test::contains("kda-tune bundle create") &&
                      test::contains("KDA_CACHE_PATH: bundle /nonexistent/kernls.kdab: ") &&
                      test::contains("KDA_NVRTC_PATH"));
  CHECK_THAT(said("on"), !test::contains("KDA_JIT") && test::contains("no usable NVRTC"));
}
