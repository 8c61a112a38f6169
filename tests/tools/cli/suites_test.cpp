#include "cli/suites.hpp"

#include "support/catch.hpp"

using namespace kda;
using kda::test::Approx;

TEST_CASE("the linear suite goes to a million tokens at 4, 8 and 32 heads", "[tools]") {
  const std::vector<cli::Subject> all = cli::linear_suite({});
  CHECK(all.size() == 15);
  CHECK(all.front().name == "T=8192 H=4");
  CHECK(all.front().regime == "strong");
  CHECK(all.back().problem.heads == 32);
  CHECK(all.back().problem.max_tokens == 1048576);
  CHECK(all.back().problem.final_state);
  CHECK(cli::linear_suite({"weak", "mixed"}).size() == 30);
}

TEST_CASE("the original suite is the published sizes of kda_prefill", "[tools]") {
  const std::vector<cli::Subject> all = cli::original_suite({});
  REQUIRE(all.size() == 5);
  CHECK(all.back().name == "original B=2 H=8 T=16384");
  for (const cli::Subject& subject : all) {
    INFO(subject.name);
    const Problem& p = subject.problem;
    CHECK(subject.head_major);
    CHECK((p.key_dim == 64 && p.value_dim == 64 && p.wy_chunk == 32));
    CHECK((p.qkv_type == DType::f32 && p.gate == Gate::logsigmoid && !p.beta_is_logit));
    CHECK_FALSE((p.initial_state || p.final_state || p.varlen));
    // q, k, v, g, o, w, u and beta, of f32.
    const auto tokens = static_cast<double>(p.max_tokens) * p.heads;
    CHECK(cli::floor_bytes(p) == tokens * 4 * (7 * 64 + 1));
  }
}

TEST_CASE("the suite is every case in three regimes, neighbours by case", "[tools]") {
  const std::vector<cli::Subject> all = cli::suite({});
  CHECK(all.size() == 3 * reference::cases().size());
  CHECK(all[0].name == all[2].name);
  CHECK(cli::suite({"weak"}).size() == reference::cases().size());
}

TEST_CASE("floor_bytes over 4.27 TB/s is the floor of each named case", "[tools]") {
  for (const cli::Subject& subject : cli::suite({"strong"})) {
    INFO(subject.name);
    const double microseconds = cli::floor_bytes(subject.problem) / 4.27e6;
    CHECK(microseconds == Approx(subject.peers->floor).epsilon(0.02).margin(0.8));
  }
}
