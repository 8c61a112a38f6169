// Effort::measure inside an application, on a driver without a device.
#include <string>

#include "kda/kda.hpp"
#include "plan/plan.hpp"
#include "reference/inputs.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/fake_gpu.hpp"
#include "tune/records.hpp"
#include "tune/small_problem.hpp"

using namespace kda;

namespace {

struct EffortFixture {
  test::Scratch scratch;
  test::Environment read{"KDA_TUNE", "read"};
  test::FakeGpu gpu;
  Problem problem = test::problem_in_words(
      "T=40 H=1 K=16 V=16 qkv=f32 g=f32 beta=f32 layout=key_first h0=1 ht=1");
  Options options{.effort = Effort::measure,
                  .cache_dir = scratch / "cache",
                  .strategy = "recurrent",
                  .tuning = "threads=64 columns=4"};

  EffortFixture() {
    gpu.shape = reference::make_tensors(problem, 40, 1);
    const tune::SmallProblem small = tune::small_problem(problem);
    gpu.small = reference::make_tensors(small.problem, small.problem.max_tokens,
                                        reference::cu_seqlens_of(small.lengths));
  }

  plan::Made make() { return std::move(plan::make_all({&problem, 1}, options).front()); }
};

}  // namespace

TEST_CASE("measuring inside an application takes what is fastest, and says so",
          "[tools][compile]") {
  EffortFixture f;
  const auto made = f.make();
  INFO(made.status().message());
  REQUIRE(made);
  CHECK_THAT(plan::describe(**made), test::contains("evidence   measured now in "));
  CHECK_THAT(plan::describe(**made), test::contains("threads=64"));
  CHECK(f.gpu.launches > 10);
}

TEST_CASE("nothing is measured while a stream is being captured", "[tools]") {
  EffortFixture f;
  f.options.stream = reinterpret_cast<Stream>(64);
  f.gpu.capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  auto made = f.make();
  REQUIRE_FALSE(made);
  CHECK(made.status().code() == Code::invalid_argument);
  CHECK_THAT(made.status().message(), test::contains("effort = measure while Options::stream is"));
  CHECK(f.gpu.launches == 0);

  f.options.stream = nullptr;
  f.gpu.legacy_stream = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  made = f.make();
  REQUIRE_FALSE(made);
  CHECK_THAT(made.status().message(), test::contains("being captured"));
  CHECK(f.gpu.launches == 0);
}

TEST_CASE("where nothing can be measured the plan is made all the same", "[tools][compile]") {
  EffortFixture f;
  f.gpu.writes = false;  // every kernel does nothing, the yardstick's too
  const auto made = f.make();
  INFO(made.status().message());
  REQUIRE(made);
  CHECK_THAT(plan::describe(**made), test::contains("could not be measured: "));
  // The bug: that plan was kept for later calls, so the problem was never measured any more.
  f.gpu.writes = true;
  const auto again = f.make();
  REQUIRE(again);
  CHECK_THAT(plan::describe(**again), !test::contains("could not be measured: "));
}
