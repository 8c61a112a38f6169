// The worker itself, on a driver without a device.
#include "worker/child.hpp"

#include <cstdio>
#include <string>
#include <vector>

#include "reference/inputs.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tools/fake_gpu.hpp"
#include "tools/run_tool.hpp"
#include "tune/records.hpp"
#include "tune/small_problem.hpp"
#include "worker/messages.hpp"

using namespace kda;

namespace {

struct ChildFixture {
  test::Scratch cache;
  test::FakeGpu gpu;
  Problem problem = test::problem_in_words(
      "T=40 H=1 K=16 V=16 qkv=f32 g=f32 beta=f32 layout=key_first h0=1 ht=1");

  ChildFixture() {
    gpu.shape = reference::make_tensors(problem, 40, 1);
    const tune::SmallProblem small = tune::small_problem(problem);
    gpu.small = reference::make_tensors(small.problem, small.problem.max_tokens,
                                        reference::cu_seqlens_of(small.lengths));
  }

  // What the worker answers to these lines.
  std::vector<worker::Reply> replies(const std::vector<std::string>& lines, int expected_code) {
    std::FILE* in = std::tmpfile();
    for (const std::string& line : lines) std::fputs((line + "\n").c_str(), in);
    std::rewind(in);
    std::FILE* out = std::tmpfile();
    CHECK(worker::serve(in, out, 0, cache.path()) == expected_code);
    std::fclose(in);
    const std::string text = test::text_of(out);
    std::vector<worker::Reply> replies;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      replies.push_back(worker::parse_reply(text.substr(at, end - at)));
      at = end + 1;
    }
    return replies;
  }
};

const tune::Timing kQuick{.rung = 0, .repeats = 2};
const tune::Timing kFinals{
    .rung = tune::kFinals, .repeats = 2, .window_us = 1, .interleaved = true, .at_size = true};

}  // namespace

TEST_CASE("a worker verifies and times what it is asked to", "[tools][compile]") {
  ChildFixture f;
  const std::vector<tune::Candidate> two = {
      test::recurrent("threads=64 lanes=8 columns=4 stages=2"),
      test::recurrent("threads=64 lanes=4 columns=4 stages=2")};
  const auto replies =
      f.replies({to_line(worker::Subject{f.problem, {40}}),
                 worker::to_line(std::span(two).first(1), kQuick), worker::to_line(two, kFinals)},
                0);
  REQUIRE(replies.size() == 6);
  CHECK(replies[0].kind == worker::Reply::Kind::ready);
  using Kind = worker::Reply::Kind;
  const Kind kinds[] = {Kind::ready,       Kind::measurement, Kind::end,
                        Kind::measurement, Kind::measurement, Kind::end};
  for (std::size_t i = 0; i < replies.size(); ++i) {
    INFO(i << ": " << replies[i].why << replies[i].measurement.why);
    CHECK(replies[i].kind == kinds[i]);
    if (kinds[i] != Kind::measurement) continue;
    CHECK(replies[i].measurement.outcome == tune::Outcome::ok);
    CHECK(replies[i].measurement.time_us.median > 0);
  }
  CHECK(replies[1].measurement.o_error < 1e-5);
}

TEST_CASE("a kernel that is wrong is never timed", "[tools][compile]") {
  ChildFixture f;
  f.gpu.o_factor = 1.01;
  const std::vector<tune::Candidate> one = {
      test::recurrent("threads=64 lanes=8 columns=4 stages=2")};
  const auto replies =
      f.replies({to_line(worker::Subject{f.problem, {40}}), worker::to_line(one, kQuick)}, 0);
  REQUIRE(replies.size() == 3);
  CHECK(replies[1].measurement.outcome == tune::Outcome::wrong);
  CHECK_THAT(replies[1].measurement.why, test::contains("o: rel-L2"));
  CHECK(replies[1].measurement.time_us.n == 0);

  f.gpu.o_factor = 1;
  f.gpu.writes = false;
  const auto silent =
      f.replies({to_line(worker::Subject{f.problem, {40}}), worker::to_line(one, kQuick)}, 0);
  REQUIRE(silent.size() == 3);
  CHECK(silent[1].measurement.outcome == tune::Outcome::wrong);
  CHECK_THAT(silent[1].measurement.why, test::contains("not written"));
}

TEST_CASE("a worker that is told nonsense says so and ends", "[tools]") {
  ChildFixture f;
  for (const char* line : {"{}", "x", "{\"measure\":7}", "{\"problem\":\"T=-1 H=1\"}"}) {
    INFO(line);
    const auto replies = f.replies({line}, 2);
    REQUIRE(replies.size() == 1);
    CHECK(replies[0].kind == worker::Reply::Kind::failed);
    CHECK_FALSE(replies[0].why.empty());
  }
}

TEST_CASE("orders and subjects survive their lines", "[tools]") {
  const worker::Subject subject{
      test::problem_in_words("T=40 N=2 H=1 varlen=1"), {7, 33}, "weak", 9};
  const auto back = worker::parse_subject(to_line(subject));
  REQUIRE(back);
  CHECK(back->problem == subject.problem);
  CHECK(back->lengths == subject.lengths);
  CHECK(back->regime == "weak");
  CHECK(back->seed == 9);
  const std::vector<tune::Candidate> one = {test::recurrent()};
  const auto order = worker::parse_order(worker::to_line(one, kFinals));
  REQUIRE(order);
  CHECK(order->candidates == one);
  CHECK(order->timing.interleaved);
  CHECK(order->timing.at_size);
  CHECK(order->timing.rung == tune::kFinals);
}
