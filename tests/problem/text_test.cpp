#include <algorithm>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

#include "problem/problem.hpp"
#include "support/catch.hpp"

using namespace kda;

namespace {

std::string refusal(std::string_view text) {
  const auto result = problem::parse(text);
  REQUIRE_FALSE(result);
  CHECK(result.status().code() == Code::invalid_argument);
  return result.status().message();
}

}  // namespace

TEST_CASE("a problem reads as words in one fixed order", "[problem]") {
  const Problem p{.heads = 16,
                  .value_heads = 64,
                  .max_tokens = 8192,
                  .max_sequences = 6,
                  .varlen = true,
                  .gate_type = DType::f32,
                  .scale = 0.1F,
                  .initial_state = true,
                  .final_state = true};
  CHECK(problem::to_text(p) ==
        "T=8192 N=6 H=16 HV=64 K=128 V=128 varlen=1 cu_seqlens=i64 qkv=bf16 g=f32 beta=bf16 "
        "state=f32 gate=bounded lower_bound=-5 beta_logit=1 neg_eigval=0 l2norm=1 scale=0.1 "
        "layout=value_first h0=1 ht=1");
}

TEST_CASE("words survive parse and back", "[problem]") {
  for (const char* text : {
           "T=1099511627776 N=1 H=1 HV=0 K=256 V=1 varlen=0 cu_seqlens=i32 qkv=f32 g=f16 beta=f16 "
           "state=bf16 gate=log_decay lower_bound=-1e-30 beta_logit=0 neg_eigval=1 l2norm=0 "
           "scale=0.088388346 layout=key_first h0=0 ht=1",
           "T=0 N=256 H=96 HV=96 K=60 V=100 varlen=1 cu_seqlens=i64 qkv=f16 g=bf16 beta=f32 "
           "state=f32 gate=softplus lower_bound=-5 beta_logit=1 neg_eigval=0 l2norm=1 scale=-0.1 "
           "layout=value_first h0=1 ht=0",
           "T=9 N=3 H=2 HV=2 K=64 V=64 varlen=1 cu_seqlens=i32 qkv=bf16 g=bf16 beta=bf16 "
           "state=bf16 gate=bounded lower_bound=-5 beta_logit=1 neg_eigval=0 l2norm=1 scale=0 "
           "layout=value_first h0=1 ht=1 pool=1 slots=i64 drafts=1 checkpoint=128 zero_padding=1 "
           "mixed=1",
           "T=9 N=3 H=2 HV=2 K=64 V=64 varlen=0 cu_seqlens=i64 qkv=bf16 g=bf16 beta=bf16 "
           "state=f32 gate=bounded lower_bound=-5 beta_logit=1 neg_eigval=0 l2norm=1 scale=0 "
           "layout=value_first h0=1 ht=1 slots=i64 committed=1",
           "T=9 N=1 H=2 HV=2 K=64 V=64 varlen=0 cu_seqlens=i64 qkv=bf16 g=f32 beta=f32 "
           "state=f32 gate=log_decay lower_bound=-5 beta_logit=0 neg_eigval=0 l2norm=1 scale=0 "
           "layout=value_first h0=1 ht=1 beta_most_1=1",
       }) {
    const auto parsed = problem::parse(text);
    REQUIRE(parsed);
    CHECK(problem::to_text(*parsed) == text);
  }
}

TEST_CASE("only the named fields change", "[problem]") {
  const auto p = problem::parse("H=64 gate=softplus", {.heads = 2, .key_dim = 60});
  REQUIRE(p);
  CHECK(p->heads == 64);
  CHECK(p->key_dim == 60);
  CHECK(p->gate == Gate::softplus);
  CHECK(problem::to_text(*problem::parse("")) == problem::to_text(Problem{}));
}

TEST_CASE("floats survive to the bit", "[problem]") {
  for (const float scale : {0.088388347648318447F, 1e-38F, 3.4028235e38F, -0.3F, 1.0F / 3}) {
    const auto p = problem::parse(problem::to_text(Problem{.scale = scale}));
    REQUIRE(p);
    CHECK(p->scale == scale);
  }
}

TEST_CASE("wrong words are refused by name", "[problem]") {
  CHECK(refusal("heads=4") ==
        "problem: there is no word 'heads'; there are T, N, H, HV, K, V, varlen, cu_seqlens, qkv, "
        "g, beta, state, gate, lower_bound, beta_logit, neg_eigval, l2norm, scale, layout, h0, ht, "
        "pool, slots, drafts, checkpoint, zero_padding, mixed, wy, committed, beta_most_1, "
        "qk_normalized");
  CHECK(refusal("H=four") == "problem: H = 'four' is not an integer");
  CHECK(refusal("qkv=fp16") == "problem: qkv = 'fp16' is not f32|bf16|f16");
  CHECK(refusal("gate=safe") ==
        "problem: gate = 'safe' is not log_decay|softplus|bounded|logsigmoid");
  CHECK(refusal("varlen=2") == "problem: varlen = '2' is not 0|1");
  CHECK(refusal("scale=big") == "problem: scale = 'big' is not a number");
  CHECK_THAT(refusal("H=1 H=2"), test::contains("H is given twice"));
  CHECK_THAT(refusal("H"), test::contains("no '='"));
}

// The bug: a number too large for its field was "not an integer".
TEST_CASE("a number that its field cannot hold is out of range", "[problem]") {
  const std::string most = std::to_string(std::numeric_limits<std::int64_t>::max());
  CHECK(refusal("H=2147483648") ==
        "problem: H = '2147483648' is not in the range -2147483648..2147483647");
  CHECK_THAT(refusal("T=99999999999999999999"),
             test::contains("not in the range -9223372036854775808.." + most));
  CHECK_THAT(refusal("H=-99999999999999999999"), test::contains("not in the range"));
  for (const char* text : {"H=-", "H=", "H=9a", "H=--9"}) {
    CHECK_THAT(refusal(text), test::contains("is not an integer"));
  }
}

// The bugs: words that are printed only where they are set were in no help text, and the others
// were printed there and not explained.
TEST_CASE("every word is explained in a line, with its default", "[problem]") {
  const std::string help = "\n" + problem::explain_words({});
  const std::string all = refusal("nothing=1");
  std::size_t at = all.find("there are ") + 10;
  std::ptrdiff_t words = 0;
  for (std::size_t next; at < all.size(); at = next + 2, ++words) {
    next = std::min(all.find(", ", at), all.size());
    const std::string word = all.substr(at, next - at);
    INFO(word);
    CHECK(help.find("\n  " + word + "=") != std::string::npos);
  }
  CHECK(words == std::count(help.begin(), help.end(), '\n') - 1);
  CHECK_THAT(help, test::contains("  checkpoint=0        a pool keeps"));
  CHECK_THAT(help, test::contains("  qkv=bf16            f32|bf16|f16: the type of q"));
  Problem given;
  given.final_state = true;
  CHECK_THAT(problem::explain_words(given), test::contains("\n  ht=1 "));
  std::istringstream lines(help.substr(1));
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    std::string setting, meaning;
    std::istringstream parts(line);
    parts >> setting;
    std::getline(parts, meaning);
    CHECK(meaning.size() > 10);
    CHECK(line.size() <= 100);
    const auto parsed = problem::parse(setting);
    REQUIRE(parsed);
    CHECK(*parsed == Problem{});
  }
}
