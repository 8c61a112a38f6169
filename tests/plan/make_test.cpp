#include <set>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

using namespace kda;

TEST_CASE("several plans are made together, each with its own outcome", "[plan][compile]") {
  const test::Scratch cache;
  const std::vector<Problem> problems = {
      {.heads = 2, .key_dim = 64, .value_dim = 64, .max_tokens = 16},
      {.heads = 0},
      {.heads = 2, .key_dim = 64, .value_dim = 64, .max_tokens = 99, .max_sequences = 3},
      {.heads = 2, .key_dim = 32, .value_dim = 32, .max_tokens = 16},
  };
  const Options options{.target = "sm_90a", .cache_dir = cache.path(), .strategy = "recurrent"};
  const auto made = plan::make_all(problems, options);
  REQUIRE(made.size() == 4);
  REQUIRE(made[0]);
  CHECK(made[1].status().code() == Code::invalid_problem);
  REQUIRE(made[2]);
  REQUIRE(made[3]);
  CHECK((*made[0])->problem.key_dim == 64);
  CHECK((*made[2])->problem.max_tokens == 99);
  CHECK((*made[3])->problem.key_dim == 32);

  // T and N are not baked in: the first and third share one kernel, built once.
  std::multiset<cache::Origin> origins;
  for (const int i : {0, 2}) origins.insert((*made[i])->program.kernels.at(0).origin);
  CHECK(origins.count(cache::Origin::built) == 1);
  CHECK((*made[3])->program.kernels.at(0).origin == cache::Origin::built);

  // Made again, nothing is compiled.
  for (const auto& again : plan::make_all(problems, options)) {
    if (again) CHECK((*again)->program.kernels.at(0).origin != cache::Origin::built);
  }
}

TEST_CASE("a wrong option fails every problem, and a wrong problem keeps its own word", "[plan]") {
  const std::vector<Problem> problems = {{.heads = 2}, {.heads = 2, .key_dim = 257}};
  const auto made = plan::make_all(problems, {.target = "abacus"});
  REQUIRE(made.size() == 2);
  CHECK(made[0].status().code() == Code::invalid_argument);
  CHECK(made[1].status().code() == Code::invalid_problem);
  CHECK(plan::make_all({}, {}).empty());
}

TEST_CASE("supports compiles nothing and says why not", "[plan]") {
  CHECK(plan::supports({.heads = 4}, {.target = "h200"}));
  CHECK(plan::supports({.heads = 4, .key_dim = 0}, {.target = "h200"}).code() ==
        Code::invalid_problem);
  CHECK(plan::supports({.heads = 4}, {.target = "h200", .strategy = "x"}).code() ==
        Code::invalid_argument);
}
