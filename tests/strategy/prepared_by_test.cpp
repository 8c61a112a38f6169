#include "strategy/prepared_by.hpp"

#include <string>
#include <vector>

#include "abi/factors.h"
#include "strategy/by_gates.hpp"
#include "strategy/fused.hpp"
#include "support/catch.hpp"
#include "support/pairwise.hpp"
#include "support/words.hpp"

using namespace kda;
using namespace kda::strategy;
using test::contains;
using test::h200;
using test::problem_in_words;

namespace {

constexpr int kChunk = abi::factors::chunk;

struct Refused {
  const char* words;
  const char* why;
};

}  // namespace

// The bug: a refusal listed all that `fused` needs, and not what the problem lacked.
TEST_CASE("what keeps a problem from groups is named with its value", "[strategy]") {
  CHECK(why_not_plainly(problem_in_words("T=8192 H=8"), h200(), kChunk).empty());
  CHECK(why_not_by_group(problem_in_words("T=8192 H=8"), h200(), kChunk).empty());
  CHECK_THAT(why_not_by_group(problem_in_words("T=8192 H=8"), *device::parse("l4"), kChunk),
             contains("compute capability 8.9; wgmma is 9.0's"));
  CHECK(why_not_by_group(problem_in_words("T=8192 H=8"), h200(), 64) ==
        "chunk is 64; 32 is served");
  constexpr Refused refused[] = {
      {"qkv=f16", "qkv_type is f16; bf16 is served"},
      {"K=100", "key_dim is 100; multiples of 64 are served"},
      {"l2norm=0", "l2norm_qk and qk_normalized are false; one of them must hold"},
      {"neg_eigval=1", "allow_neg_eigval is true; beta up to 1 is served"},
      {"beta_logit=0", "beta_is_logit and beta_at_most_one are false; one of them must hold"},
      {"lower_bound=-101", "lower_bound is -101; -100 and above are served"},
      {"wy=32", "wy_chunk is 32; w and u come of other ways alone"},
  };
  for (const Refused& each : refused) {
    const Problem problem = problem_in_words(std::string("T=8192 H=8 ") + each.words);
    CHECK(why_not_plainly(problem, h200(), kChunk) == each.why);
    CHECK_THAT(fused.applicable(problem, h200()).message(),
               contains(std::string("strategy fused: ") + each.why + "; chunk_wgmma serves more"));
  }
}

TEST_CASE("groups of prepare stages serve f16 and writes of two, with care", "[strategy]") {
  for (const char* words : {"qkv=f16", "neg_eigval=1", "qkv=f16 neg_eigval=1 K=64",
                            "qkv=f16 l2norm=0 qk_normalized=1 beta_logit=0 beta_most_1=1"}) {
    const Problem problem = problem_in_words(std::string("T=8192 H=8 ") + words);
    INFO(words);
    CHECK(prepares_by_group(problem, h200(), kChunk));
    CHECK_FALSE(prepares_plainly(problem, h200(), kChunk));
    CHECK(why_not_by_group(problem, h200(), kChunk).empty());
  }
  constexpr Refused refused[] = {
      {"qkv=f32", "qkv_type is f32; bf16 and f16 are served"},
      {"qkv=f16 l2norm=0", "l2norm_qk and qk_normalized are false; one of them must hold"},
      {"qkv=f16 K=256", "key_dim is 256 with qkv_type f16; 64 and 128 are served"},
      {"qkv=f16 beta_logit=0",
       "beta_is_logit and beta_at_most_one are false; one of them must hold"},
      {"neg_eigval=1 K=192", "key_dim is 192 with allow_neg_eigval; 64 and 128 are served"},
      {"neg_eigval=1 lower_bound=-101", "lower_bound is -101; -100 and above are served"},
  };
  for (const Refused& each : refused) {
    const Problem problem = problem_in_words(std::string("T=8192 H=8 ") + each.words);
    CHECK(why_not_by_group(problem, h200(), kChunk) == each.why);
  }
}

TEST_CASE("what keeps a problem from teams is named with its value", "[strategy]") {
  for (const char* words :
       {"T=8192 H=8", "T=8192 H=8 gate=softplus", "T=8192 H=8 gate=log_decay g=f32"}) {
    CHECK(why_not_by_teams(problem_in_words(words)).empty());
  }
  constexpr Refused refused[] = {
      {"lower_bound=-6", "lower_bound is -6; -5.155 to -1e-06 are served"},
      {"scale=2000", "scale is 2000; 1/1024 to 1024 are served"},
      {"scale=0.004 l2norm=0 qk_normalized=1",
       "scale is 0.004 with l2norm_qk = false; 1/32 to 1024 are served"},
  };
  for (const Refused& each : refused) {
    const Problem problem = problem_in_words(std::string("T=8192 H=8 ") + each.words);
    CHECK(why_not_by_teams(problem) == each.why);
  }
}

TEST_CASE("fused and by_gates name their own limits", "[strategy]") {
  const auto why = [&](const Strategy& strategy, const char* words) {
    return strategy.applicable(problem_in_words(words), h200()).message();
  };
  CHECK_THAT(why(fused, "T=8192 H=8 K=256 V=256"),
             contains("strategy fused: key_dim is 256; 64 and 128 are served"));
  CHECK_THAT(why(fused, "T=8192 H=8 V=100"),
             contains("strategy fused: value_dim is 100; multiples of 128 are served"));
  CHECK_THAT(why(fused, "T=8192 H=8 qkv=f32"), contains("bf16 is served; chunk serves more"));
  CHECK_THAT(why(by_gates, "T=8192 H=8 qkv=f16"),
             contains("by_gates: as strategy fused: qkv_type"));
  CHECK_THAT(why(by_gates, "T=8192 H=8 lower_bound=-6"),
             contains("strategy by_gates: lower_bound is -6"));
  CHECK_THAT(why(by_gates, "T=8192 H=8 N=2 varlen=1"),
             contains("strategy by_gates: varlen is true; dense sequences are served"));
  CHECK_THAT(why(by_gates, "T=8192 H=8 pool=1 h0=1 ht=1"),
             contains("strategy by_gates: state_pool is true"));
  CHECK_THAT(why(by_gates, "T=8192 H=64"),
             contains("strategy by_gates: max_sequences is 1 with HV=64 and V=128"));
}

// What no other field explains is told of lower_bound, which these have as it is served.
TEST_CASE("whatever keeps problems from groups is told of its own field", "[strategy]") {
  const std::vector<test::Factor> factors = {
      {"K=64", "K=100", "K=128", "K=256"},
      {"qkv=bf16", "qkv=f16", "qkv=f32"},
      {"beta_logit=1", "beta_logit=1 neg_eigval=1", "beta_logit=0", "beta_logit=0 beta_most_1=1"},
      {"l2norm=1", "l2norm=0", "l2norm=0 qk_normalized=1"},
      {"gate=bounded", "gate=softplus"}};
  int served = 0;
  for (const test::Row& row : test::pairwise(factors)) {
    const Problem problem = problem_in_words("T=8192 H=8 " + test::words_of(factors, row));
    const std::string why = why_not_by_group(problem, h200(), kChunk);
    const std::string plainly = why_not_plainly(problem, h200(), kChunk);
    CHECK(why.empty() == prepares_by_group(problem, h200(), kChunk));
    CHECK(plainly.empty() == prepares_plainly(problem, h200(), kChunk));
    CHECK((!plainly.empty() || why.empty()));
    CHECK_THAT(why + plainly, !contains("lower_bound"));
    served += why.empty() ? 1 : 0;
  }
  CHECK(served > 0);
}
