// What a kernel's key depends on: each input, and nothing of the machine.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <set>

#include "plan/choose.hpp"
#include "problem/problem.hpp"
#include "program/program.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

using namespace kda;

namespace {

// Of the first stage.
std::string key_of(const Problem& given, const char* target = "h200",
                   const std::string& strategy = "recurrent", const std::string& tuning = "") {
  const auto problem = problem::complete(given);
  REQUIRE(problem);
  const auto device = device::parse(target);
  auto choice = plan::choose(*problem, *device, {.strategy = strategy, .tuning = tuning});
  INFO(choice.status().message());
  REQUIRE(choice);
  return program::unit_of(choice->recipe.stages.at(0), *device)->key.text();
}

const Problem plain = {
    .heads = 2, .value_heads = 4, .key_dim = 64, .value_dim = 64, .max_tokens = 64};

}  // namespace

TEST_CASE("everything that a model fixes changes the key", "[program]") {
  const std::function<void(Problem&)> changes[] = {
      [](Problem& p) { p.key_dim = 32; },
      [](Problem& p) { p.value_dim = 32; },
      [](Problem& p) { p.value_heads = 8; },
      [](Problem& p) { p.qkv_type = DType::f16; },
      [](Problem& p) { p.gate_type = DType::f32; },
      [](Problem& p) { p.beta_type = DType::f32; },
      [](Problem& p) { p.final_state = true; },
      [](Problem& p) { p.initial_state = true; },
      [](Problem& p) { p.gate = Gate::log_decay; },
      [](Problem& p) { p.gate = Gate::softplus; },
      [](Problem& p) { p.beta_is_logit = false; },
      [](Problem& p) { p.allow_neg_eigval = true; },
      [](Problem& p) { p.l2norm_qk = false; },
      [](Problem& p) { p.varlen = true; },
      [](Problem& p) {
        p.beta_is_logit = false;
        p.beta_at_most_one = true;
      },
      [](Problem& p) {
        p.l2norm_qk = false;
        p.qk_normalized = true;
      },
  };
  std::set<std::string> keys = {key_of(plain)};
  for (const auto& change : changes) {
    Problem problem = plain;
    change(problem);
    INFO(problem::to_text(*problem::complete(problem)));
    CHECK(keys.insert(key_of(problem)).second);
  }
  CHECK(keys.insert(key_of(plain, "sm_89")).second);
  CHECK(keys.insert(key_of(plain, "h200", "recurrent", "threads=128")).second);
  CHECK(keys.insert(key_of(plain, "h200", "chunk")).second);
  const test::Environment flags("NVRTC_APPEND_FLAGS", "-lineinfo");
  CHECK(keys.insert(key_of(plain)).second);
}

TEST_CASE("what a run brings does not change the key", "[program]") {
  Problem problem = plain;
  problem.max_sequences = 3;
  problem.scale = 0.5F;
  problem.lower_bound = -3;
  CHECK(key_of(problem) == key_of(plain));
}

// vllm#48190, flashinfer#4884, DeepGEMM#388: a path or PATH in the key recompiled everything.
TEST_CASE("the machine, the user and the place do not change the key", "[program]") {
  const std::string before = key_of(plain);
  const test::Scratch scratch;
  const test::Environment home("HOME", scratch.path());
  const test::Environment path("PATH", "/elsewhere");
  const test::Environment host("HOSTNAME", "another");
  const test::Environment cache("KDA_CACHE_DIR", scratch / "cache");
  const test::Environment temporary("TMPDIR", scratch.path());
  const test::Environment user("USER", "someone");
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  const mode_t mask = ::umask(0);
  const std::string after = key_of(plain);
  ::umask(mask);
  std::filesystem::current_path(here);
  CHECK(after == before);
  CHECK(after.find('/' + std::string("tmp")) == std::string::npos);
  CHECK(after.find(here.string()) == std::string::npos);
}
