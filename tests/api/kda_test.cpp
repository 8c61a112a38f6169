// The public calls as a program sees them, on a machine with or without a device: every refusal,
// with the exact code and the field's name.
#include "kda/kda.hpp"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/forward.hpp"
#include "support/scratch.hpp"

using namespace kda;

namespace {

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

const test::Scratch& scratch() {
  static const test::Scratch directory;
  return directory;
}

Options named() { return {.target = "h200", .cache_dir = scratch().path()}; }

Problem small() {
  return {.heads = 2, .value_heads = 4, .key_dim = 32, .value_dim = 16, .max_tokens = 256};
}

Forward legal() { return test::forward_at(256, 0x100000, 0x100000); }

void check_refused(const Status& status, Code code, const std::string& part) {
  CHECK(std::string(name_of(status.code())) == name_of(code));
  CHECK_THAT(status.message(), test::contains(part));
}

}  // namespace

TEST_CASE("a plan is made for a device that is not here, describes itself, and moves", "[api]") {
  auto made = Plan::make(small(), named());
  INFO(made.status().message());
  REQUIRE(made);
  Plan plan = *std::move(made);
  CHECK(plan.problem().value_heads == 4);
  CHECK(plan.problem().scale > 0.17F);
  CHECK(plan.workspace_bytes() % 256 == 0);
  CHECK_THAT(plan.describe(), test::contains("registers"));
  CHECK_THAT(plan.describe(), test::contains("strategy"));
  Plan other = std::move(plan);
  CHECK(other.problem().heads == 2);
}

TEST_CASE("bad problems are refused by every call that takes one", "[api]") {
  struct Bad {
    Problem problem;
    const char* part;
  };
  const Bad all[] = {
      {{.heads = 4, .value_heads = 6}, "value_heads = 6 is not a multiple of heads = 4"},
      {{.heads = 4, .key_dim = 0}, "key_dim = 0"},
      {{.heads = 4, .key_dim = 257}, "key_dim = 257"},
      {{}, "heads = 0"},
      {{.heads = 4, .max_tokens = -1}, "max_tokens = -1"},
      {{.heads = 4, .lower_bound = 1}, "lower_bound = 1"},
  };
  for (const Bad& bad : all) {
    check_refused(Plan::make(bad.problem, named()).status(), Code::invalid_problem, bad.part);
    check_refused(supports(bad.problem, named()), Code::invalid_problem, bad.part);
    // Also where there is no device to ask.
    check_refused(Plan::make(bad.problem, {.device = -1}).status(), Code::invalid_problem,
                  bad.part);
  }
}

TEST_CASE("bad options are refused", "[api]") {
  const auto refused = [](Options options, const std::string& part) {
    if (options.target.empty()) options.target = "h200";
    options.cache_dir = scratch().path();
    check_refused(Plan::make(small(), options).status(), Code::invalid_argument, part);
    check_refused(supports(small(), options), Code::invalid_argument, part);
  };
  refused({.strategy = "quick"}, "strategy = 'quick'; there are recurrent, chunk");
  refused({.strategy = "chunk", .tuning = "speed=11"}, "no tunable 'speed'");
  refused({.strategy = "chunk", .tuning = "chunk=31"}, "chunk = 31 is not one of 16, 32, 64");
  refused({.tuning = "chunk"}, "chunk");
  refused({.target = "sm_42"}, "sm_42");
  check_refused(Plan::make(small(), {.device = -7}).status(), Code::invalid_argument,
                "device = -7");
}

// The bug: an effort or cache mode that is none was taken for the default, and a limit that is no
// number for none; the C interface refused the first two.
TEST_CASE("options whose values are none are refused by every call", "[api]") {
  const auto refused = [](void (*change)(Options&), const char* part) {
    Options options = named();
    change(options);
    check_refused(Plan::make(small(), options).status(), Code::invalid_argument, part);
    check_refused(supports(small(), options), Code::invalid_argument, part);
    const Problem problems[] = {small(), small()};
    const auto plans = Plan::make_all(problems, options);
    REQUIRE(plans.size() == 2);
    for (const auto& plan : plans) check_refused(plan.status(), Code::invalid_argument, part);
  };
  refused([](Options& o) { o.effort = static_cast<Effort>(9); }, "effort = 9; kda.hpp has 0..2");
  refused([](Options& o) { o.effort = static_cast<Effort>(-1); }, "effort = -1;");
  refused([](Options& o) { o.cache_mode = static_cast<CacheMode>(9); },
          "cache_mode = 9; kda.hpp has 0..3");
  refused([](Options& o) { o.time_limit_seconds = std::nan(""); }, "time_limit_seconds = nan; it");
  refused([](Options& o) { o.time_limit_seconds = -1; }, "time_limit_seconds = -1; it is");
  Options endless = named();
  endless.time_limit_seconds = std::numeric_limits<double>::infinity();
  CHECK(supports(small(), endless));
}

TEST_CASE("several plans at once, each with its own outcome", "[api]") {
  Problem other = small();
  other.heads = 3;
  const Problem problems[] = {small(), other, small()};
  const std::vector<Result<Plan>> plans = Plan::make_all(problems, named());
  REQUIRE(plans.size() == 3);
  CHECK(plans[0]);
  CHECK(plans[1].status().code() == Code::invalid_problem);
  CHECK(plans[2]);
}

TEST_CASE("bad runs are refused before anything else", "[api]") {
  Options options = named();
  options.strategy = "chunk";  // needs a workspace
  Problem problem = small();
  problem.initial_state = problem.final_state = true;
  const auto plan = Plan::make(problem, options);
  REQUIRE(plan);
  const std::size_t bytes = plan->workspace_bytes();
  REQUIRE(bytes > 0);

  Forward good = legal();
  good.initial_state = at(0x700000);
  good.final_state = at(0x800000);
  const auto refused = [&](const Forward& forward, const std::string& part) {
    check_refused(plan->run(forward, at(0x900000), bytes, nullptr), Code::invalid_argument, part);
  };
  const auto with = [&](auto change) {
    Forward forward = good;
    change(forward);
    return forward;
  };
  refused(with([](Forward& f) { f.q = nullptr; }), "q is null");
  refused(with([](Forward& f) { f.o = nullptr; }), "o is null");
  refused(with([](Forward& f) { f.initial_state = nullptr; }), "initial_state is null");
  refused(with([](Forward& f) { f.v = at(0x300001); }), "v = 0x300001 is not aligned");
  refused(with([](Forward& f) { f.final_state = at(0x800002); }), "final_state = 0x800002");
  refused(with([](Forward& f) { f.tokens = 257; }), "tokens = 257");
  refused(with([](Forward& f) { f.sequences = 2; }), "sequences = 2");
  refused(with([](Forward& f) { f.cu_seqlens = at(0xa00000); }), "cu_seqlens is given");
  refused(with([](Forward& f) { f.o_strides = {0, 64, 8}; }), "o_strides.head = 8");

  check_refused(plan->run(good, at(0x900000), bytes - 1, nullptr), Code::invalid_argument,
                "this plan needs " + std::to_string(bytes));
  check_refused(plan->run(good, nullptr, bytes, nullptr), Code::invalid_argument,
                "workspace is null");
  check_refused(plan->run(good, at(0x900010), bytes, nullptr), Code::invalid_argument,
                "workspace = 0x900010");
  check_refused(plan->run(good, at(0x900000), bytes, nullptr), Code::unsupported, "H200");
}

TEST_CASE("cu_seqlens of the wrong kind is refused", "[api]") {
  Problem problem = small();
  problem.varlen = true;
  problem.max_sequences = 4;
  const auto plan = Plan::make(problem, named());
  REQUIRE(plan);
  Forward forward = legal();
  forward.sequences = 3;
  check_refused(plan->run(forward, at(0x900000), plan->workspace_bytes(), nullptr),
                Code::invalid_argument, "cu_seqlens is null");
  forward.cu_seqlens = at(0xa00004);
  check_refused(plan->run(forward, at(0x900000), plan->workspace_bytes(), nullptr),
                Code::invalid_argument, "cu_seqlens = 0xa00004 is not aligned to its element of 8");
  forward.cu_seqlens = at(0xa00008);
  CHECK(plan->run(forward, at(0x900000), plan->workspace_bytes(), nullptr).code() ==
        Code::unsupported);
}

TEST_CASE("many threads may make and refuse at once", "[api]") {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto plan = Plan::make(small(), named());
      if (plan && plan->run({}, nullptr, 0, nullptr).code() != Code::ok) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 8);
}

TEST_CASE("a cache that cannot be written costs only its use", "[api]") {
  Options options = named();
  options.cache_dir = "/dev/null/kda";
  const auto plan = Plan::make(small(), options);
  INFO(plan.status().message());
  CHECK(plan);
}

TEST_CASE("without a driver a device plan is a device error (apart)", "[.]") {
  check_refused(Plan::make(small(), {}).status(), Code::device_error, "libcuda");
  check_refused(supports(small(), {}), Code::device_error, "libcuda");
  CHECK(supports(small(), named()));
  const auto plan = Plan::make(small(), named());
  INFO(plan.status().message());
  CHECK(plan);
}

TEST_CASE("without a driver a device plan is a device error", "[api]") {
  const test::Outcome outcome =
      test::run_case_apart("without a driver a device plan is a device error (apart)",
                           {{"KDA_LIBCUDA_PATH", "/nonexistent/libcuda.so.1"}});
  INFO(outcome.output);
  CHECK(outcome.code == 0);
}

TEST_CASE("without NVRTC a plan is a failed compile (apart)", "[.]") {
  const Status status = Plan::make(small(), named()).status();
  check_refused(status, Code::compile_failed, "/nonexistent/libnvrtc.so");
  CHECK(supports(small(), named()));
}

TEST_CASE("without NVRTC a plan is a failed compile", "[api]") {
  const test::Scratch cache;  // an empty one: nothing was ever compiled
  const test::Outcome outcome = test::run_case_apart(
      "without NVRTC a plan is a failed compile (apart)",
      {{"KDA_NVRTC_PATH", "/nonexistent/libnvrtc.so"}, {"KDA_CACHE_DIR", cache.path()}});
  INFO(outcome.output);
  CHECK(outcome.code == 0);
}
