#include "plan/kept.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/env.hpp"
#include "launch/driver.hpp"
#include "plan/plan.hpp"
#include "problem/problem.hpp"
#include "support/catch.hpp"
#include "support/fake_driver.hpp"
#include "support/scratch.hpp"

using namespace kda;
using test::FakeDriver;

namespace {

using Kept = std::unique_ptr<const Plan::Impl>;

const test::Scratch& scratch() {
  static const test::Scratch directory;
  return directory;
}

Problem small() { return {.heads = 2, .key_dim = 32, .value_dim = 16, .max_tokens = 64}; }
Options options() { return {.cache_dir = scratch().path(), .strategy = "recurrent"}; }

Kept make(const Problem& problem = small(), const Options& with = options()) {
  auto made = plan::make_all({&problem, 1}, with);
  INFO(made.front().status().message());
  REQUIRE(made.front());
  return std::move(*made.front());
}

const void* prelude_of(const Kept& plan) { return plan->program.kernels.at(0).module.kernel(); }

// Every plan in this file is of one kernel: how many were loaded tells what was kept.
struct Fresh {
  Fresh() { plan::forget_all(); }
  ~Fresh() { plan::forget_all(); }
  FakeDriver fake;
};

}  // namespace

TEST_CASE("the same plan again is neither composed nor loaded again", "[plan][compile]") {
  Fresh at;
  const Kept first = make();
  const Kept again = make();
  CHECK(at.fake.libraries_loaded == 1);
  CHECK(prelude_of(first) == prelude_of(again));
  CHECK(again->program.kernels.at(0).origin == cache::Origin::memory);
  CHECK(again->problem == first->problem);
  CHECK(again->program.recipe.workspace_bytes == first->program.recipe.workspace_bytes);
}

TEST_CASE("a plan is kept after the last of its kind is gone, and holds no context then",
          "[plan][compile]") {
  Fresh at;
  make();
  CHECK(at.fake.primaries_released == at.fake.primaries_retained);
  CHECK(at.fake.libraries_unloaded == 0);
  const Kept again = make();
  CHECK(at.fake.libraries_loaded == 1);
  CHECK(at.fake.primaries_released < at.fake.primaries_retained);
  plan::forget_all();
  CHECK(at.fake.libraries_unloaded == 0);  // `again` runs it
}

TEST_CASE("a context that was destroyed between two plans costs a load and nothing else",
          "[plan][compile]") {
  Fresh at;
  at.fake.current = FakeDriver::own_context();
  const Kept first = make();
  CHECK(at.fake.context_of_load == FakeDriver::own_context());
  at.fake.alive.clear();
  const Kept again = make();
  CHECK(at.fake.context_of_load == FakeDriver::primary(0));
  CHECK(at.fake.functions_loaded == 2);
  CHECK(at.fake.libraries_loaded == 1);
}

TEST_CASE("what the choice depends on makes another plan", "[plan][compile]") {
  Fresh at;
  make();
  const auto is_new = [&](const Problem& problem, const Options& with) {
    plan::Recall recall{*problem::complete(problem), with, 0, launch::driver_generation(),
                        base::env::snapshot()};
    return plan::recall(recall) == nullptr;
  };
  CHECK_FALSE(is_new(small(), options()));
  Problem problem = small();
  problem.max_tokens = 65;
  CHECK(is_new(problem, options()));
  Options other = options();
  other.tuning = "threads=64";
  CHECK(is_new(small(), other));
  other = options();
  other.cache_dir = "/elsewhere";
  CHECK(is_new(small(), other));
  {
    const test::Environment set("NVRTC_APPEND_FLAGS", "-lineinfo");
    CHECK(is_new(small(), options()));
  }
  {
    const FakeDriver replaced;
    CHECK(is_new(small(), options()));
  }
}

// Options::stream and the limit of time say how to measure, not what is made.
TEST_CASE("how a plan would be measured makes no other plan", "[plan][compile]") {
  Fresh at;
  Options with = options();
  with.stream = reinterpret_cast<Stream>(0x77);
  with.time_limit_seconds = 3;
  make(small(), with);
  Options plain = options();
  plain.time_limit_seconds = 0;
  CHECK(plan::recall({*problem::complete(small()), plain, 0, launch::driver_generation(),
                      base::env::snapshot()}) != nullptr);
}

// Else a model of more plans than are kept would make those that it uses most over and over.
TEST_CASE("of too many plans the one goes that was used longest ago", "[plan][compile]") {
  plan::forget_all();
  Options named = options();
  named.target = "h200";
  const Kept plan = make(small(), named);
  plan::forget_all();
  const auto recall_of = [&](int number) {
    return plan::Recall{plan->problem, named, -1, launch::driver_generation(),
                        std::to_string(number)};
  };
  const auto is_kept = [&](int number) { return plan::recall(recall_of(number)) != nullptr; };
  for (int i = 0; i < 64; ++i) plan::keep(recall_of(i), *plan);
  for (int i = 0; i < 9; ++i) plan::keep(recall_of(63), *plan);  // is one, however often
  CHECK(is_kept(0));
  plan::keep(recall_of(64), *plan);
  CHECK_FALSE(is_kept(1));
  for (const int number : {0, 2, 63, 64}) CHECK(is_kept(number));
  plan::forget_all();
  CHECK_FALSE(is_kept(0));
}

TEST_CASE("the device is the thread's own at each call", "[plan][compile]") {
  Fresh at;
  CHECK(make()->device.ordinal == 0);
  at.fake.current = FakeDriver::own_context();
  at.fake.current_device = 1;
  CHECK(make()->device.ordinal == 1);
  Options named = options();
  named.device = 0;
  CHECK(make(small(), named)->device.ordinal == 0);
}

TEST_CASE("a kept plan that the driver will not have is made anew", "[plan][compile]") {
  Fresh at;
  make();
  at.fake.refuse_once = "cuKernelGetFunction";
  const Kept again = make();
  CHECK(again->program.kernels.at(0).module);
  CHECK(at.fake.libraries_loaded == 2);
}

TEST_CASE("a model of 32 layers of one problem compiles and loads each kernel once",
          "[plan][compile]") {
  Fresh at;
  const test::Scratch cold;
  Options with = options();
  with.cache_dir = cold.path();
  with.strategy = "chunk";
  const std::vector<Problem> layers(
      32, {.heads = 2, .key_dim = 64, .value_dim = 64, .max_tokens = 256, .final_state = true});
  const auto made = plan::make_all(layers, with);
  int built = 0;
  for (const auto& plan : made) {
    INFO(plan.status().message());
    REQUIRE(plan);
    REQUIRE((*plan)->program.kernels.size() == 2);
    for (const program::Kernel& kernel : (*plan)->program.kernels) {
      built += kernel.origin == cache::Origin::built ? 1 : 0;
      CHECK(kernel.module);
    }
  }
  CHECK(built == 2);
  CHECK(at.fake.libraries_loaded == 2);
}

TEST_CASE("threads that make one plan at once load its kernel once", "[plan][compile]") {
  Fresh at;
  at.fake.current = FakeDriver::own_context();
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  make();
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const Problem problem = small();
      for (int n = 0; n < 20; ++n) {
        const auto made = plan::make_all({&problem, 1}, options());
        if (made.front() && (*made.front())->program.kernels.at(0).module) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 160);
  CHECK(at.fake.libraries_loaded == 1);
}

// Issue 4: under 50 us from memory.  The least of many, so that a busy machine does not fail it; on
// a real driver its calls come on top (tools/results has them).
TEST_CASE("a plan from memory takes microseconds", "[plan][compile]") {
  Fresh at;
  const Problem problem{.heads = 16, .value_heads = 64, .max_tokens = 8192, .final_state = true};
  const Options with{.cache_dir = scratch().path()};
  make(problem, with);
  double least = 1e9;
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Kept plan = make(problem, with);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
  }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  CHECK(least < 1000);
#else
  CHECK(least < 50);
#endif
}
