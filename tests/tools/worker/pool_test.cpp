// Workers that fault, hang and die, played by a shell script.
#include "worker/pool.hpp"

#include <chrono>
#include <fstream>
#include <map>
#include <string>

#include "support/catch.hpp"
#include "support/scratch.hpp"
#include "tune/records.hpp"
#include "worker/messages.hpp"

using namespace kda;

namespace {

// Candidates by their lanes: 32 kills its process, 4 hangs, 16 ends in words; any other is right.
constexpr const char* kScript = R"(#!/bin/sh
say() { printf '%s\n' "$1"; }
while IFS= read -r line; do
  case "$line" in
    *'"measure"'*lanes=32*) kill -SEGV $$ ;;
    *'"measure"'*lanes=4*) exec sleep 60 ;;
    *'"measure"'*lanes=16*) echo 'out of cheese' >&2; exit 3 ;;
    *'"interleaved":true'*) say "$0"; say '@0'; say '@1'; say '{"end":true}' ;;
    *'"measure"'*) say '@0'; say '{"end":true}' ;;
    *) say '{"ready":true}' ;;
  esac
done
)";

struct PoolFixture {
  test::Scratch scratch;
  worker::Subject subject;

  PoolFixture() {
    const Problem problem = test::problem_in_words("T=64 H=2");
    subject = {problem, {64}};
    std::string text = kScript;
    tune::Measurement m;
    m.candidate = test::recurrent("threads=64 lanes=8 columns=2 stages=2");
    m.time_us = {.n = 3, .median = 42, .iqr = 1, .min = 41};
    const std::string body = to_json(m);
    replace(text, "say \"$0\"; ", "");
    for (const char* index : {"0", "1", "0"}) {
      replace(text, "@" + std::string(index),
              "{\"index\":" + std::string(index) + ",\"measurement\":" + body + "}");
    }
    std::ofstream(scratch / "worker.sh") << text;
  }

  static void replace(std::string& text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  }

  worker::PoolOptions options() const {
    worker::PoolOptions options;
    options.command = [script = scratch / "worker.sh"](int) {
      return std::vector<std::string>{"/bin/sh", script};
    };
    options.candidate_seconds = 0.5;
    options.finals_seconds = 0.5;
    options.inputs_seconds = 5;
    return options;
  }
};

tune::Candidate with_lanes(int lanes) {
  const std::string text = "threads=64 lanes=" + std::to_string(lanes) + " columns=2 stages=2";
  return test::recurrent(text.c_str());
}

std::map<std::size_t, tune::Measurement> measured(worker::Pool& pool,
                                                  const std::vector<tune::Candidate>& candidates,
                                                  const tune::Timing& timing = {}) {
  std::map<std::size_t, tune::Measurement> got;
  const Status status = pool.measure(candidates, timing, [&](std::size_t i, tune::Measurement m) {
    CHECK(got.emplace(i, std::move(m)).second);
  });
  INFO(status.message());
  CHECK(status.ok());
  return got;
}

}  // namespace

TEST_CASE("a candidate that kills its process costs only itself", "[tools]") {
  const PoolFixture f;
  worker::Pool pool(f.options());
  pool.enter(f.subject);
  const auto got = measured(pool, {with_lanes(8), with_lanes(32), with_lanes(8), with_lanes(16),
                                   with_lanes(4), with_lanes(8)});
  REQUIRE(got.size() == 6);
  for (const std::size_t right : {0U, 2U, 5U}) {
    CHECK(got.at(right).outcome == tune::Outcome::ok);
    CHECK(got.at(right).time_us.median == 42);
  }
  CHECK(got.at(1).outcome == tune::Outcome::crash);
  CHECK(got.at(1).candidate == with_lanes(32));
  CHECK_THAT(got.at(1).why, test::contains("SIGSEGV"));
  CHECK(got.at(3).outcome == tune::Outcome::crash);
  CHECK_THAT(got.at(3).why, test::contains("exit code 3: out of cheese"));
  CHECK(got.at(4).outcome == tune::Outcome::timeout);
  CHECK(pool.starts() == 4);  // the first, and one after each fault
}

TEST_CASE("finals that break are run one by one, so that only the culprit is out", "[tools]") {
  const PoolFixture f;
  worker::Pool pool(f.options());
  pool.enter(f.subject);
  const tune::Timing finals{.rung = tune::kFinals, .interleaved = true, .at_size = true};
  auto got = measured(pool, {with_lanes(8), with_lanes(8)}, finals);
  REQUIRE(got.size() == 2);
  CHECK(got.at(1).outcome == tune::Outcome::ok);
  got = measured(pool, {with_lanes(8), with_lanes(32), with_lanes(8)}, finals);
  REQUIRE(got.size() == 3);
  CHECK(got.at(0).outcome == tune::Outcome::ok);
  CHECK(got.at(1).outcome == tune::Outcome::crash);
  CHECK(got.at(2).outcome == tune::Outcome::ok);
}

TEST_CASE("several devices share the candidates, and each fault stays its own", "[tools]") {
  const PoolFixture f;
  worker::PoolOptions options = f.options();
  options.devices = {0, 1, 2};
  worker::Pool pool(options);
  CHECK(pool.width() == 3);
  pool.enter(f.subject);
  std::vector<tune::Candidate> candidates;
  for (int i = 0; i < 24; ++i) candidates.push_back(with_lanes(i % 6 == 5 ? 32 : 8));
  const auto got = measured(pool, candidates);
  REQUIRE(got.size() == 24);
  std::set<int> devices;
  for (const auto& [i, m] : got) {
    CHECK((m.outcome == tune::Outcome::crash) == (i % 6 == 5));
    if (m.outcome == tune::Outcome::ok) devices.insert(m.device);
  }
  CHECK(devices.size() > 1);
}

// The bug: one of several devices that could not be used ended the search of all.
TEST_CASE("a device that cannot measure leaves its candidates to the others", "[tools]") {
  const PoolFixture f;
  for (const int dead : {0, 2}) {
    INFO("dead " << dead);
    worker::PoolOptions options = f.options();
    options.devices = {0, 1, 2};
    options.command = [dead, alive = f.options().command](int device) {
      return device == dead ? std::vector<std::string>{"/nowhere/kda-tune"} : alive(device);
    };
    worker::Pool pool(options);
    pool.enter(f.subject);
    const std::vector<tune::Candidate> candidates(24, with_lanes(8));
    const auto got = measured(pool, candidates);
    CHECK(got.size() == 24);
    for (const auto& [i, m] : got) CHECK(m.device != dead);
    const auto finals = measured(pool, {with_lanes(8), with_lanes(8)}, {.interleaved = true});
    CHECK(finals.size() == 2);
  }
}

TEST_CASE("where no worker can start the measurer says why", "[tools]") {
  const PoolFixture f;
  worker::PoolOptions options = f.options();
  options.command = [](int) { return std::vector<std::string>{"/nowhere/kda-tune"}; };
  worker::Pool pool(options);
  pool.enter(f.subject);
  const std::vector<tune::Candidate> one = {with_lanes(8)};
  const Status status = pool.measure(one, {}, [](std::size_t, tune::Measurement) { FAIL(); });
  CHECK(status.code() == Code::device_error);
  CHECK_THAT(status.message(), test::contains("device 0 cannot measure: exit code 127"));
  // Not tried again for this subject, as a search measures many times, but for the next one.
  CHECK(pool.measure(one, {}, {}).message() == status.message());
  CHECK(pool.starts() == 1);
  pool.enter(f.subject);
  CHECK_FALSE(pool.measure(one, {}, {}));
  CHECK(pool.starts() == 2);
}

TEST_CASE("nothing is begun after `until`, and nothing lasts past the deadline", "[tools]") {
  const PoolFixture f;
  worker::PoolOptions options = f.options();
  options.candidate_seconds = options.finals_seconds = 60;  // the script sleeps as long
  options.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  worker::Pool pool(options);
  pool.enter(f.subject);
  const tune::Timing over{.until = std::chrono::steady_clock::now() - std::chrono::seconds(1)};
  CHECK(measured(pool, {with_lanes(8), with_lanes(8)}, over).empty());

  const std::vector<tune::Candidate> two = {with_lanes(8), with_lanes(4)};
  for (const bool interleaved : {false, true}) {
    const tune::Timing timing{.interleaved = interleaved};
    const Status status = pool.measure(two, timing, [](std::size_t, tune::Measurement) {});
    CHECK_THAT(status.message(), test::contains("time"));
    CHECK_FALSE(status.ok());
  }
  CHECK(std::chrono::steady_clock::now() < options.deadline + std::chrono::seconds(10));
}
