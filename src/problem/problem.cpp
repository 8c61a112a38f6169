#include "problem/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "problem/refuse.hpp"

namespace kda::problem {

namespace {

// Value heads lie on a grid's y axis, which CUDA limits to 65535.
constexpr int kMaxHeads = 65535;
// A thread keeps whole columns of K channels in registers or shared memory; 256 is what fits.
constexpr int kMaxKeyDim = 256;
// V is split over blocks, so nothing hard limits it; far past any model, and no size overflows.
constexpr int kMaxValueDim = 65536;
// Elements of the largest tensor, so that every byte count (workspaces too) fits 63 bits.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;
// Denser checkpoints would fall inside chunks; draft_states keeps every state.
constexpr int kFewestCheckpointTokens = 64;
// Chunks round a sequence's tokens up; the longest any strategy uses.
constexpr std::int64_t kLongestChunk = 256;

template <class Enum>
Status check_enum(const char* field, Enum value, int count, const char* names) {
  const auto number = static_cast<std::int64_t>(value);
  if (number >= 0 && number < count) return {};
  return refuse_problem("{} = {} is no enumerator; there are {}", field, number, names);
}

Status check_enums(const Problem& p) {
  const char* dtypes = "f32, bf16, f16";
  const Status checks[] = {
      check_enum("qkv_type", p.qkv_type, 3, dtypes),
      check_enum("gate_type", p.gate_type, 3, dtypes),
      check_enum("beta_type", p.beta_type, 3, dtypes),
      check_enum("state_type", p.state_type, 3, "f32, bf16"),
      check_enum("cu_seqlens_type", p.cu_seqlens_type, 2, "i32, i64"),
      check_enum("gate", p.gate, 4, "log_decay, softplus, bounded, logsigmoid"),
      check_enum("state_layout", p.state_layout, 2, "key_first, value_first"),
      check_enum("slot_index_type", p.slot_index_type, 2, "i32, i64"),
  };
  for (const Status& status : checks) {
    if (!status) return status;
  }
  if (p.state_type == DType::f16)
    return refuse_problem("state_type = f16; the state is f32 or bf16");
  return {};
}

Status check_heads(const Problem& p) {
  if (p.heads < 1 || p.heads > kMaxHeads) {
    return refuse_problem("heads = {}; it must be in 1..{}", p.heads, kMaxHeads);
  }
  if (p.value_heads < 1 || p.value_heads > kMaxHeads) {
    return refuse_problem("value_heads = {}; it must be in 1..{}, or 0 for heads", p.value_heads,
                          kMaxHeads);
  }
  if (p.value_heads % p.heads != 0) {
    return refuse_problem("value_heads = {} is not a multiple of heads = {}", p.value_heads,
                          p.heads);
  }
  return {};
}

Status check_sizes(const Problem& p) {
  if (p.key_dim < 1 || p.key_dim > kMaxKeyDim) {
    return refuse_problem("key_dim = {}; it must be in 1..{}", p.key_dim, kMaxKeyDim);
  }
  if (p.value_dim < 1 || p.value_dim > kMaxValueDim) {
    return refuse_problem("value_dim = {}; it must be in 1..{}", p.value_dim, kMaxValueDim);
  }
  if (p.max_tokens < 0)
    return refuse_problem("max_tokens = {}; it must be at least 0", p.max_tokens);
  if (p.max_sequences < 1) {
    return refuse_problem("max_sequences = {}; it must be at least 1", p.max_sequences);
  }

  // Divided rather than multiplied: the products themselves may overflow.
  const std::int64_t padding = kLongestChunk * p.max_sequences;
  const std::int64_t row = std::int64_t{p.value_heads} * std::max(p.key_dim, p.value_dim);
  const std::int64_t most_tokens = kMaxElements / row - padding;
  if (most_tokens < 0) {  // of no tokens at all, as each sequence's last chunk may be padded
    return refuse_problem(
        "max_sequences = {} makes tensors too large; with these heads and dims at most {}",
        p.max_sequences, kMaxElements / row / kLongestChunk);
  }
  if (p.max_tokens > most_tokens) {
    return refuse_problem(
        "max_tokens = {} makes tensors too large; with these heads and dims at most {}",
        p.max_tokens, most_tokens);
  }
  // States are no more: one is as large as key_dim tokens' v.
  static_assert(kMaxKeyDim <= kLongestChunk);
  return {};
}

Status check_formulas(const Problem& p) {
  if (p.gate == Gate::bounded && !(std::isfinite(p.lower_bound) && p.lower_bound < 0)) {
    return refuse_problem("lower_bound = {}; Gate::bounded needs it finite and below 0",
                          p.lower_bound);
  }
  if (p.allow_neg_eigval && !p.beta_is_logit) {
    return refuse_problem(
        "allow_neg_eigval = true doubles sigmoid(beta), but beta_is_logit = false; set "
        "it, or pass beta already doubled with allow_neg_eigval = false");
  }
  if (p.beta_at_most_one && p.allow_neg_eigval) {
    return refuse_problem("beta_at_most_one = true, but allow_neg_eigval = true lets beta reach 2");
  }
  if (!std::isfinite(p.scale)) {
    return refuse_problem("scale = {}; it must be finite, 0 for 1 / sqrt(key_dim)", p.scale);
  }
  return {};
}

Status check_wy(const Problem& p) {
  if (p.wy_chunk != 0 && p.wy_chunk != 16 && p.wy_chunk != 32 && p.wy_chunk != 64) {
    return refuse_problem("wy_chunk = {}; it must be 16, 32 or 64, or 0 for no w and u",
                          p.wy_chunk);
  }
  if (p.wy_chunk != 0 && p.varlen) {
    return refuse_problem("wy_chunk = {}, but varlen = true: w and u come from dense runs only",
                          p.wy_chunk);
  }
  if (p.wy_chunk != 0 && p.state_pool) {
    return refuse_problem(
        "wy_chunk = {}, but state_pool = true: w and u know no padding; use states of their own",
        p.wy_chunk);
  }
  return {};
}

// One final state a sequence: not one for every token, and none that later tokens have entered.
Status check_committed(const Problem& p) {
  if (!p.committed_tokens) return {};
  if (!p.final_state) {
    return refuse_problem(
        "committed_tokens is set, but final_state = false: nothing would be written");
  }
  if (p.draft_states) {
    return refuse_problem(
        "committed_tokens beside draft_states, which keeps the state after every token; set one of "
        "them: draft_states to start from a kept state, committed_tokens to compute accepted "
        "tokens again");
  }
  if (p.checkpoint_tokens > 0) {
    return refuse_problem(
        "committed_tokens beside checkpoint_tokens = {}, which keeps states that tokens past the "
        "committed ones may have entered; set one of them",
        p.checkpoint_tokens);
  }
  if (p.wy_chunk != 0) {
    return refuse_problem(
        "committed_tokens beside wy_chunk = {}: w and u are of chunks, and tokens are committed "
        "one "
        "by one; set one of them",
        p.wy_chunk);
  }
  return {};
}

// What needs a pool of states, and what it needs of one.
Status check_serving(const Problem& p) {
  if (p.mixed_lengths && !p.varlen) {
    return refuse_problem(
        "mixed_lengths = true, but varlen = false: sequences of a dense run are equal");
  }
  if (p.checkpoint_tokens != 0 && p.checkpoint_tokens < kFewestCheckpointTokens) {
    return refuse_problem("checkpoint_tokens = {}; it must be at least {}, or 0 for no checkpoints",
                          p.checkpoint_tokens, kFewestCheckpointTokens);
  }
  if (!p.state_pool) {
    const char* field = p.draft_states            ? "draft_states"
                        : p.checkpoint_tokens > 0 ? "checkpoint_tokens"
                        : p.zero_padding          ? "zero_padding"
                                                  : nullptr;
    if (field == nullptr) return {};
    return refuse_problem("{} is set, but state_pool = false: slots to keep or to skip need a pool",
                          field);
  }
  if (!p.initial_state && !p.final_state) {
    return refuse_problem("state_pool = true, but neither initial_state nor final_state is");
  }
  if (!p.final_state && (p.draft_states || p.checkpoint_tokens > 0)) {
    return refuse_problem("{} is set, but final_state = false: nothing would be written",
                          p.draft_states ? "draft_states" : "checkpoint_tokens");
  }
  if (p.draft_states && p.checkpoint_tokens > 0) {
    return refuse_problem(
        "checkpoint_tokens = {} beside draft_states, which keeps the state after every "
        "token; set one of them",
        p.checkpoint_tokens);
  }
  return {};
}

}  // namespace

Result<Problem> complete(const Problem& problem) {
  Problem p = problem;
  if (p.value_heads == 0) p.value_heads = p.heads;
  for (const auto check : {check_enums, check_heads, check_sizes, check_formulas, check_serving,
                           check_wy, check_committed}) {
    if (Status status = check(p); !status) return status;
  }
  // A NaN that nobody reads would make the problem differ from itself.
  if (!std::isfinite(p.lower_bound)) p.lower_bound = Problem{}.lower_bound;
  // Known of what the kernels do themselves: the same kernels.
  if (p.beta_is_logit) p.beta_at_most_one = false;
  if (p.l2norm_qk) p.qk_normalized = false;
  if (p.scale == 0) p.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(p.key_dim)));
  return p;
}

}  // namespace kda::problem
