#include "cli/subject.hpp"

#include "support/catch.hpp"

using namespace kda;
using kda::test::Approx;
using Texts = std::vector<std::string>;

namespace {

cli::Subject one(const std::string& text) {
  const auto subjects = cli::subjects_of(text, {});
  INFO(text << ": " << subjects.status().message());
  REQUIRE(subjects);
  REQUIRE(subjects->size() == 1);
  return subjects->front();
}

std::string refusal(const std::string& text) {
  const auto subjects = cli::subjects_of(text, {});
  INFO(text);
  REQUIRE_FALSE(subjects);
  return subjects.status().message();
}

}  // namespace

TEST_CASE("a case's name is its problem, lengths and peers", "[tools]") {
  const cli::Subject subject = one("h64_mixed");
  CHECK(subject.problem.heads == 64);
  CHECK(subject.problem.varlen);
  CHECK(subject.cu_seqlens.size() == 7);
  CHECK(subject.cu_seqlens.back() == 8192);
  CHECK(subject.regime == "strong");
  REQUIRE(subject.peers != nullptr);
  CHECK(subject.peers->fla == 1787);
}

TEST_CASE("words are a problem in the setting of the cases", "[tools]") {
  const cli::Subject subject = one("T=8192 H=64 gate_regime=weak");
  const cli::Subject named = one("h64 gate_regime=weak");
  CHECK(subject.regime == "weak");
  CHECK(subject.problem.value_heads == 64);
  CHECK(subject.problem.initial_state);
  CHECK(subject.problem.final_state);
  CHECK(subject.cu_seqlens == std::vector<std::int64_t>{0, 8192});
  CHECK(subject.peers == nullptr);
  CHECK(named.peers != nullptr);
  CHECK(cli::floor_bytes(subject.problem) == cli::floor_bytes(named.problem));
}

TEST_CASE("words change a case, and what follows from them", "[tools]") {
  const cli::Subject fewer = one("h64 H=16");
  CHECK(fewer.problem.value_heads == 16);
  CHECK(fewer.peers == nullptr);
  CHECK(one("h64 K=64").problem.scale == Approx(0.125F));
  CHECK(one("h64_mixed T=600").cu_seqlens.back() == 600);
}

TEST_CASE("seqlens packs sequences and sets T and N", "[tools]") {
  const cli::Subject subject = one("H=4 seqlens=3,0,5");
  CHECK(subject.problem.varlen);
  CHECK(subject.problem.max_tokens == 8);
  CHECK(subject.problem.max_sequences == 3);
  CHECK(subject.cu_seqlens == std::vector<std::int64_t>{0, 3, 3, 8});
  CHECK_THAT(refusal("H=4 T=9 seqlens=3,5"), test::contains("add up to 8"));
  CHECK_THAT(refusal("H=4 seqlens=3,-5"), test::contains("\"-5\""));
}

TEST_CASE("packed sequences without lengths are as even as can be", "[tools]") {
  CHECK(one("H=1 T=10 N=4 varlen=1").cu_seqlens == std::vector<std::int64_t>{0, 3, 6, 8, 10});
  CHECK_THAT(refusal("H=1 T=10 N=4"), test::contains("does not divide"));
}

TEST_CASE("lists make several problems, and regimes several of each", "[tools]") {
  const auto listed = cli::subjects_of("T=1024,2048 H=4 gate_regime=strong,weak", {});
  REQUIRE(listed);
  CHECK(listed->size() == 4);
  const auto regimes = cli::subjects_of("h4", {"strong", "mixed"});
  REQUIRE(regimes);
  CHECK(regimes->size() == 2);
  CHECK(regimes->back().regime == "mixed");
}

TEST_CASE("bad words name the known ones", "[tools]") {
  CHECK_THAT(refusal("h65"), test::contains("h64_mixed"));
  CHECK_THAT(refusal("H=4 T=64 tokens=3"), test::contains("seqlens"));
  CHECK_THAT(refusal("h64 gate_regime=mild"), test::contains("strong, weak, mixed"));
  CHECK_THAT(refusal("h64 h32"), test::contains("two cases"));
  CHECK_THAT(refusal("H=4"), test::contains("T is 0"));
  CHECK_FALSE(refusal("H=3 HV=4 T=64").empty());
}

TEST_CASE("loose words belong to the argument before them", "[tools]") {
  CHECK(cli::group_words({"h64", "gate_regime=weak", "h32"}) ==
        Texts{"h64 gate_regime=weak", "h32"});
  CHECK(cli::group_words({"T=8", "H=4"}) == Texts{"T=8 H=4"});
  CHECK(cli::group_words({"T=8 H=4", "T=9 H=4"}) == Texts{"T=8 H=4", "T=9 H=4"});
}

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

TEST_CASE("the suite is every case in three regimes, neighbours by case", "[tools]") {
  const std::vector<cli::Subject> all = cli::suite({});
  CHECK(all.size() == 3 * reference::cases().size());
  CHECK(all[0].name == all[2].name);
  CHECK(cli::suite({"weak"}).size() == reference::cases().size());
}

TEST_CASE("floor_bytes over 4.27 TB/s is the floor of peers.md", "[tools]") {
  for (const cli::Subject& subject : cli::suite({"strong"})) {
    INFO(subject.name);
    const double microseconds = cli::floor_bytes(subject.problem) / 4.27e6;
    CHECK(microseconds == Approx(subject.peers->floor).epsilon(0.02).margin(0.8));
  }
}
