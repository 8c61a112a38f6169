#include "problem/problem.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "problem/shape.hpp"
#include "support/catch.hpp"

using namespace kda;

namespace {

Problem legal() { return {.heads = 4, .value_heads = 8, .max_tokens = 1024}; }

using Change = std::function<void(Problem&)>;

// Each change after the first one.
void check_legal(const Change& first, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    Problem problem = legal();
    first(problem);
    change(problem);
    CHECK(problem::complete(problem));
  }
}

std::string refusal(const Change& spoil) {
  Problem problem = legal();
  spoil(problem);
  const auto result = problem::complete(problem);
  REQUIRE_FALSE(result);
  CHECK(result.status().code() == Code::invalid_problem);
  return result.status().message();
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("complete fills in value_heads and scale", "[problem]") {
  const auto p = problem::complete({.heads = 3, .key_dim = 64});
  REQUIRE(p);
  CHECK(p->value_heads == 3);
  CHECK(p->scale == 0.125F);
  CHECK(problem::complete({.heads = 3, .scale = -2.0F})->scale == -2.0F);
  CHECK(problem::complete(*p)->scale == p->scale);
}

// The bug: such a problem was not equal to itself, so that its plans were never found again.
TEST_CASE("a bound that no gate reads is no NaN", "[problem]") {
  const auto p = problem::complete({.heads = 3, .gate = Gate::softplus, .lower_bound = kNan});
  REQUIRE(p);
  CHECK(*p == *problem::complete({.heads = 3, .gate = Gate::softplus}));
}

TEST_CASE("the limits themselves are legal", "[problem]") {
  for (const int key_dim : {1, 60, 256}) {
    CHECK(problem::complete({.heads = 1, .key_dim = key_dim, .value_dim = 1}));
  }
  CHECK(problem::complete({.heads = 1, .value_dim = 65536}));
  CHECK(problem::complete({.heads = 65535, .max_tokens = 1 << 20, .max_sequences = 1 << 16}));
  CHECK(problem::complete({.heads = 1, .state_type = DType::bf16}));
  CHECK(problem::complete({.heads = 1, .gate = Gate::softplus, .lower_bound = kNan}));
  CHECK(problem::complete({.heads = 1, .gate = Gate::bounded, .lower_bound = -1e-30F}));
  CHECK(problem::complete({.heads = 1, .allow_neg_eigval = true}));
  CHECK(problem::complete({.heads = 1, .wy_chunk = 64}));
}

TEST_CASE("a problem that contradicts itself is refused by field, value and limit", "[problem]") {
  CHECK(refusal([](Problem& p) { p.heads = 0; }) == "heads = 0; it must be in 1..65535");
  CHECK(refusal([](Problem& p) { p.heads = -1; }) == "heads = -1; it must be in 1..65535");
  CHECK(refusal([](Problem& p) { p.heads = 65536; }) == "heads = 65536; it must be in 1..65535");
  CHECK(refusal([](Problem& p) { p.value_heads = -4; }) ==
        "value_heads = -4; it must be in 1..65535, or 0 for heads");
  CHECK(refusal([](Problem& p) { p.value_heads = 65536; }) ==
        "value_heads = 65536; it must be in 1..65535, or 0 for heads");
  CHECK(refusal([](Problem& p) { p.value_heads = 6; }) ==
        "value_heads = 6 is not a multiple of heads = 4");
  CHECK(refusal([](Problem& p) { p.value_heads = 2; }) ==
        "value_heads = 2 is not a multiple of heads = 4");
  CHECK(refusal([](Problem& p) { p.key_dim = 0; }) == "key_dim = 0; it must be in 1..256");
  CHECK(refusal([](Problem& p) { p.key_dim = 257; }) == "key_dim = 257; it must be in 1..256");
  CHECK(refusal([](Problem& p) { p.value_dim = 0; }) == "value_dim = 0; it must be in 1..65536");
  CHECK(refusal([](Problem& p) { p.value_dim = 65537; }) ==
        "value_dim = 65537; it must be in 1..65536");
  CHECK(refusal([](Problem& p) { p.max_tokens = -1; }) == "max_tokens = -1; it must be at least 0");
  CHECK(refusal([](Problem& p) { p.max_sequences = 0; }) ==
        "max_sequences = 0; it must be at least 1");
  CHECK(refusal([](Problem& p) { p.state_type = DType::f16; }) ==
        "state_type = f16; the state is f32 or bf16");
  CHECK(refusal([](Problem& p) { p.lower_bound = 0; }) ==
        "lower_bound = 0; Gate::bounded needs it finite and below 0");
  CHECK_THAT(refusal([](Problem& p) { p.lower_bound = 5; }), test::contains("lower_bound = 5"));
  CHECK_THAT(refusal([](Problem& p) { p.lower_bound = kNan; }),
             test::contains("lower_bound = nan"));
  CHECK_THAT(refusal([](Problem& p) { p.lower_bound = -kInfinity; }),
             test::contains("lower_bound = -inf"));
  CHECK_THAT(refusal([](Problem& p) { p.scale = kNan; }), test::contains("scale = nan"));
  CHECK_THAT(refusal([](Problem& p) { p.scale = kInfinity; }), test::contains("scale = inf"));
  CHECK_THAT(refusal([](Problem& p) {
               p.beta_is_logit = false;
               p.allow_neg_eigval = true;
             }),
             test::contains("allow_neg_eigval = true"));
  CHECK(refusal([](Problem& p) { p.beta_at_most_one = p.allow_neg_eigval = true; }) ==
        "beta_at_most_one = true, but allow_neg_eigval = true lets beta reach 2");
}

TEST_CASE(
    "what is known of sigmoids and norms need not be promised and makes no kernels of its own",
    "[problem]") {
  const auto promised = problem::complete({.heads = 1, .beta_at_most_one = true});
  REQUIRE(promised);
  CHECK_FALSE(promised->beta_at_most_one);
  const auto given =
      problem::complete({.heads = 1, .beta_is_logit = false, .beta_at_most_one = true});
  REQUIRE(given);
  CHECK(problem::shape_of(*given).beta_at_most_one);

  const auto normed = problem::complete({.heads = 1, .qk_normalized = true});
  REQUIRE(normed);
  CHECK_FALSE(normed->qk_normalized);
  const auto as_given = problem::complete({.heads = 1, .l2norm_qk = false, .qk_normalized = true});
  REQUIRE(as_given);
  CHECK(problem::shape_of(*as_given).qk_normalized);
}

TEST_CASE("an enum cast from garbage is refused", "[problem]") {
  CHECK(refusal([](Problem& p) { p.qkv_type = static_cast<DType>(3); }) ==
        "qkv_type = 3 is no enumerator; there are f32, bf16, f16");
  CHECK_THAT(refusal([](Problem& p) { p.gate_type = static_cast<DType>(-1); }),
             test::contains("gate_type = -1"));
  CHECK_THAT(refusal([](Problem& p) { p.beta_type = static_cast<DType>(9); }),
             test::contains("beta_type = 9"));
  CHECK_THAT(refusal([](Problem& p) { p.state_type = static_cast<DType>(7); }),
             test::contains("state_type = 7"));
  CHECK_THAT(refusal([](Problem& p) { p.cu_seqlens_type = static_cast<Index>(2); }),
             test::contains("cu_seqlens_type = 2"));
  CHECK_THAT(refusal([](Problem& p) { p.gate = static_cast<Gate>(4); }),
             test::contains("gate = 4"));
  CHECK_THAT(refusal([](Problem& p) { p.state_layout = static_cast<StateLayout>(2); }),
             test::contains("state_layout = 2"));
}

TEST_CASE("w and u come of chunks that dense runs have", "[problem]") {
  CHECK(refusal([](Problem& p) { p.wy_chunk = 48; }) ==
        "wy_chunk = 48; it must be 16, 32 or 64, or 0 for no w and u");
  CHECK(refusal([](Problem& p) { p.wy_chunk = 32, p.varlen = true; }) ==
        "wy_chunk = 32, but varlen = true: w and u come from dense runs only");
  // The bug: of a sequence that is padding q, k and v were read, and w and u written.
  CHECK(refusal([](Problem& p) { p.wy_chunk = 32, p.state_pool = p.final_state = true; }) ==
        "wy_chunk = 32, but state_pool = true: w and u know no padding; use states of their own");
}

TEST_CASE("tokens are committed to one final state a sequence", "[problem]") {
  const auto committed = [](Problem& p) { p.committed_tokens = p.final_state = true; };
  check_legal(committed,
              {[](Problem&) {}, [](Problem& p) { p.initial_state = true; },
               [](Problem& p) { p.state_pool = p.zero_padding = p.initial_state = true; },
               [](Problem& p) { p.varlen = p.mixed_lengths = true; }});
  CHECK(refusal([](Problem& p) { p.committed_tokens = true; }) ==
        "committed_tokens is set, but final_state = false: nothing would be written");
  CHECK(
      refusal([&](Problem& p) { committed(p), p.state_pool = p.draft_states = true; }) ==
      "committed_tokens beside draft_states, which keeps the state after every token; set one of "
      "them: draft_states to start from a kept state, committed_tokens to compute accepted tokens "
      "again");
  CHECK(refusal([&](Problem& p) { committed(p), p.state_pool = true, p.checkpoint_tokens = 64; }) ==
        "committed_tokens beside checkpoint_tokens = 64, which keeps states that tokens past the "
        "committed ones may have entered; set one of them");
  // The bug: seven strategies said that the eighth serves it, which does not.
  CHECK(
      refusal([&](Problem& p) { committed(p), p.wy_chunk = 32; }) ==
      "committed_tokens beside wy_chunk = 32: w and u are of chunks, and tokens are committed one "
      "by one; set one of them");
}

TEST_CASE("sizes whose bytes would overflow are refused", "[problem]") {
  CHECK_THAT(refusal([](Problem& p) { p.max_tokens = std::numeric_limits<std::int64_t>::max(); }),
             test::contains("max_tokens = 9223372036854775807"));
  CHECK_THAT(refusal([](Problem& p) {
               p.value_heads = 65532;
               p.value_dim = 65536;
               p.max_sequences = std::numeric_limits<int>::max();
             }),
             test::contains("at most"));
  CHECK(problem::complete({.heads = 1, .max_tokens = std::int64_t{1} << 40}));
}

// Workspaces hold whole chunks: a sequence's last one may be padding but for a token.
TEST_CASE("the most tokens leave room for a chunk of padding a sequence", "[problem]") {
  constexpr std::int64_t kRow = 8 * 128, kMost = (std::int64_t{1} << 56) / kRow;
  for (const int sequences : {1, 1000}) {
    Problem p = legal();
    p.max_sequences = sequences;
    p.max_tokens = kMost - 256 * sequences;
    CHECK(problem::complete(p));
    ++p.max_tokens;
    CHECK(problem::complete(p).status().code() == Code::invalid_problem);
  }
}

// The bug: where max_sequences alone was too much, "max_tokens = 1 makes tensors too large; ... at
// most 0" was said, and no max_tokens did.
TEST_CASE("what max_sequences makes too large is not blamed on max_tokens", "[problem]") {
  const auto many = [](Problem& p) {
    p.heads = p.value_heads = 2048;
    p.max_tokens = 1;
    p.max_sequences = std::numeric_limits<int>::max();
  };
  const std::string said = refusal(many);
  CHECK_THAT(said, test::contains("max_sequences = 2147483647 makes tensors too large"));
  const int most = std::stoi(said.substr(said.rfind(' ') + 1));
  CHECK_THAT(refusal([&](Problem& p) { many(p), p.max_sequences = most + 1; }),
             test::contains("max_sequences"));
}

TEST_CASE("what serving asks for needs a pool that is read or written", "[problem]") {
  const auto pooled = [](Problem& p) { p.state_pool = p.initial_state = p.final_state = true; };
  check_legal(pooled, {[](Problem&) {}, [](Problem& p) { p.draft_states = p.zero_padding = true; },
                       [](Problem& p) { p.checkpoint_tokens = 64; },
                       [](Problem& p) { p.final_state = false; },
                       [](Problem& p) { p.initial_state = false, p.checkpoint_tokens = 100; },
                       [](Problem& p) { p.varlen = p.mixed_lengths = true; }});
  CHECK(refusal([](Problem& p) { p.draft_states = true; }) ==
        "draft_states is set, but state_pool = false: slots to keep or to skip need a pool");
  CHECK_THAT(refusal([](Problem& p) { p.checkpoint_tokens = 64; }),
             test::contains("checkpoint_tokens is set, but state_pool = false"));
  CHECK_THAT(refusal([](Problem& p) { p.zero_padding = true; }),
             test::contains("zero_padding is set, but state_pool = false"));
  CHECK(refusal([](Problem& p) { p.state_pool = true; }) ==
        "state_pool = true, but neither initial_state nor final_state is");
  CHECK(refusal([&](Problem& p) { pooled(p), p.draft_states = true, p.final_state = false; }) ==
        "draft_states is set, but final_state = false: nothing would be written");
  CHECK(refusal([&](Problem& p) { pooled(p), p.checkpoint_tokens = 63; }) ==
        "checkpoint_tokens = 63; it must be at least 64, or 0 for no checkpoints");
  CHECK_THAT(
      refusal([&](Problem& p) { pooled(p), p.checkpoint_tokens = 64, p.draft_states = true; }),
      test::contains("checkpoint_tokens = 64 beside draft_states"));
  CHECK_THAT(refusal([](Problem& p) { p.mixed_lengths = true; }),
             test::contains("mixed_lengths = true, but varlen = false"));
  CHECK_THAT(refusal([&](Problem& p) { pooled(p), p.slot_index_type = static_cast<Index>(2); }),
             test::contains("slot_index_type = 2 is no enumerator"));
}
