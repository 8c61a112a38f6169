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

TEST_CASE("a mixed problem without seqlens is decodes and a prefill", "[tools]") {
  CHECK(one("T=100 N=4 H=1 varlen=1 mixed=1").cu_seqlens ==
        std::vector<std::int64_t>{0, 1, 2, 3, 100});
  CHECK(one("T=3 N=4 H=1 varlen=1 mixed=1").cu_seqlens == std::vector<std::int64_t>{0, 1, 2, 3, 3});
}

TEST_CASE("seqlens packs sequences and sets T and N", "[tools]") {
  const cli::Subject subject = one("H=4 seqlens=3,0,5");
  CHECK(subject.problem.varlen);
  CHECK(subject.problem.max_tokens == 8);
  CHECK(subject.problem.max_sequences == 3);
  CHECK(subject.cu_seqlens == std::vector<std::int64_t>{0, 3, 3, 8});
  CHECK_THAT(refusal("H=4 T=9 seqlens=3,5"), test::contains("add up to 8"));
  CHECK(one("H=4 T=8 N=2 varlen=1 seqlens=3,5").problem.max_sequences == 2);
  CHECK_THAT(refusal("H=4 seqlens=3,-5"), test::contains("\"-5\""));
}

// The bug: an N or varlen that seqlens contradict went unheeded, where a T was refused.
TEST_CASE("words that seqlens contradict are refused", "[tools]") {
  CHECK(refusal("H=4 N=5 seqlens=3,5") == "N is 5, but seqlens are 2 sequences");
  CHECK_THAT(refusal("H=4 varlen=0 seqlens=3,5"), test::contains("varlen is 0, but seqlens pack"));
}

// The bug: lengths whose sum no integer holds overflowed, and passed as some ten tokens.
TEST_CASE("seqlens that are too long or too many are refused", "[tools]") {
  const std::string most = "9223372036854775807";
  CHECK_THAT(refusal("H=4 seqlens=" + most + "," + most + ",10"),
             test::contains("more than " + most));
  CHECK_THAT(refusal("H=4 seqlens=2x" + most), test::contains("more than " + most));
  CHECK_THAT(refusal("H=4 seqlens=1048576x1,1"), test::contains("more than 1048576 sequences"));
  CHECK_THAT(refusal("H=4 seqlens=" + most), test::contains("tensors too large"));
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
  CHECK_THAT(refusal("H=4 T=64 colour=3"), test::contains("; and gate_regime, seqlens"));
  CHECK_THAT(refusal("h64 gate_regime=mild"), test::contains("strong, weak, mixed"));
  CHECK_THAT(refusal("h64 h32"), test::contains("two cases"));
  CHECK_THAT(refusal("H=4"), test::contains("T is 0"));
  CHECK_FALSE(refusal("H=3 HV=4 T=64").empty());
}

// The bug: of a word of the tools' own given twice it was said that there is no such word, and of
// any other fault in a word that there are gate_regime and seqlens too.
TEST_CASE("a word given twice is said to be, whose ever it is", "[tools]") {
  for (const std::string text : {"h64 gate_regime=weak gate_regime=weak", "H=4 seqlens=3 seqlens=5",
                                 "kimi-k3 T=64 tp=2 tp=4", "H=4 T=64 tokens=3"}) {
    const std::string why = refusal(text);
    CHECK_THAT(why, test::contains(" is given twice"));
    CHECK_THAT(why, !test::contains("; and gate_regime"));
  }
  CHECK_THAT(refusal("H=four T=64"), !test::contains("gate_regime"));
}

TEST_CASE("loose words belong to the argument before them", "[tools]") {
  CHECK(cli::group_words({"h64", "gate_regime=weak", "h32"}) ==
        Texts{"h64 gate_regime=weak", "h32"});
  CHECK(cli::group_words({"T=8", "H=4"}) == Texts{"T=8 H=4"});
  CHECK(cli::group_words({"T=8 H=4", "T=9 H=4"}) == Texts{"T=8 H=4", "T=9 H=4"});
}

TEST_CASE("the problem's letters have longer spellings, with ranges", "[tools]") {
  const auto listed = cli::subjects_of("tokens=64 heads=16..64:16 key_dim=64,128", {});
  REQUIRE(listed);
  REQUIRE(listed->size() == 8);
  CHECK(listed->front().name == "T=64 H=16 K=64");
  CHECK(listed->back().problem.heads == 64);
  CHECK(listed->back().problem.key_dim == 128);
}

TEST_CASE("a model with words is its layers' problem", "[tools]") {
  const cli::Subject subject = one("kimi-linear-48b tp=4 T=8192");
  CHECK(subject.name == "kimi-linear-48b tp=4 T=8192");
  CHECK(subject.problem.heads == 8);
  CHECK(subject.problem.value_heads == 8);
  CHECK(subject.problem.gate == Gate::softplus);
  CHECK(subject.problem.final_state);
  CHECK(one("kimi-k3 seqlens=3,5").problem.max_sequences == 2);
  CHECK(one("glm-5.3-flash T=64 state=bf16").problem.state_type == DType::bf16);
}

TEST_CASE("a model alone is its usual runs", "[tools]") {
  const auto runs = cli::subjects_of("kimi-k3 tp=1,8", {});
  REQUIRE(runs);
  REQUIRE(runs->size() == 10);
  CHECK(runs->front().problem.heads == 96);
  CHECK(runs->back().problem.heads == 12);
  CHECK(runs->back().problem.max_sequences == 64);
}

TEST_CASE("tp must divide a model's heads, and wants a model", "[tools]") {
  CHECK_THAT(refusal("kimi-linear-48b tp=3 T=64"), test::contains("32 heads"));
  CHECK_THAT(refusal("kimi-linear-48b tp=0 T=64"), test::contains("divides"));
  CHECK_THAT(refusal("kimi-linear-48b tp=x T=64"), test::contains("\"x\""));
  CHECK_THAT(refusal("h64 tp=4"), test::contains("kimi-k3"));
  CHECK_THAT(refusal("kimi-linear-49b"), test::contains("kimi-linear-48b"));
  const auto groups = cli::with_tp({"kimi-k3 T=1", "h64"}, 4);
  REQUIRE(groups);
  CHECK(*groups == Texts{"kimi-k3 T=1 tp=4", "h64"});
  CHECK_FALSE(cli::with_tp({"h64"}, 4));
}
