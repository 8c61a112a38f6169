#include "problem/shape.hpp"

#include <cstdint>

#include "problem/problem.hpp"

namespace kda::problem {

namespace {

// The public enums and the kernels' are one list; casts below rely on it.
constexpr bool same(auto a, auto b) { return static_cast<int>(a) == static_cast<int>(b); }
static_assert(same(DType::f32, abi::DType::f32) && same(DType::bf16, abi::DType::bf16) &&
              same(DType::f16, abi::DType::f16));
static_assert(same(Index::i32, abi::Index::i32) && same(Index::i64, abi::Index::i64));
static_assert(same(Gate::log_decay, abi::Gate::log_decay) &&
              same(Gate::softplus, abi::Gate::softplus) &&
              same(Gate::bounded, abi::Gate::bounded) &&
              same(Gate::logsigmoid, abi::Gate::logsigmoid));

abi::DType abi_of(DType type) { return static_cast<abi::DType>(type); }

abi::Tensor tensor_of(const void* data, const Strides& strides) {
  return {data, strides.sequence, strides.token, strides.head};
}

abi::IndexTable table_of(const IndexTable& table) {
  return {table.data, table.stride == 0 ? table.columns : table.stride, table.columns};
}

abi::StatePool pool_of(const Problem& problem, const StatePool& given) {
  return {.slots = given.slots,
          .stride = given.stride == 0 ? slot_elements(problem) : given.stride,
          .indices = table_of(given.indices),
          .initial_indices = given.initial_indices,
          .num_accepted_tokens = given.num_accepted_tokens,
          .checkpoints = table_of(given.checkpoints),
          .checkpoint_tokens = problem.checkpoint_tokens};
}

// length: tokens a sequence of a dense run.
void fill(const Problem& problem, std::int64_t length, int heads, int channels, Strides& strides) {
  if (strides.sequence == 0 && strides.token == 0 && strides.head == 0) {
    strides.head = channels;
    strides.token = std::int64_t{heads} * channels;
    strides.sequence = length * strides.token;
  }
  if (problem.varlen) strides.sequence = 0;
}

}  // namespace

abi::Shape shape_of(const Problem& problem) {
  abi::Shape shape;
  shape.key_dim = problem.key_dim;
  shape.value_dim = problem.value_dim;
  shape.group = problem.value_heads / problem.heads;
  shape.qkv_type = abi_of(problem.qkv_type);
  shape.gate_type = abi_of(problem.gate_type);
  shape.beta_type = abi_of(problem.beta_type);
  shape.gate = static_cast<abi::Gate>(problem.gate);
  shape.beta_is_logit = problem.beta_is_logit;
  shape.allow_neg_eigval = problem.allow_neg_eigval;
  shape.beta_at_most_one = problem.beta_at_most_one;
  shape.l2norm_qk = problem.l2norm_qk;
  shape.qk_normalized = problem.qk_normalized;
  shape.initial_state = problem.initial_state;
  shape.final_state = problem.final_state;
  if (problem.initial_state || problem.final_state) {
    shape.state_type = abi_of(problem.state_type);
    shape.state_value_first = problem.state_layout == StateLayout::value_first;
  }
  shape.varlen = problem.varlen;
  if (problem.varlen) shape.cu_seqlens_type = static_cast<abi::Index>(problem.cu_seqlens_type);
  if (problem.state_pool) {
    shape.state_pool = true;
    shape.draft_states = problem.draft_states;
    shape.checkpoints = problem.checkpoint_tokens > 0;
    shape.zero_padding = problem.zero_padding;
  }
  shape.wy_tensors = problem.wy_chunk > 0;
  shape.committed_tokens = problem.committed_tokens;
  if (shape.state_pool || shape.committed_tokens) {
    shape.slot_index_type = static_cast<abi::Index>(problem.slot_index_type);
  }
  return shape;
}

abi::Inputs inputs_of(const Problem& problem, const Forward& forward) {
  abi::Inputs in;
  in.q = tensor_of(forward.q, forward.q_strides);
  in.k = tensor_of(forward.k, forward.k_strides);
  in.v = tensor_of(forward.v, forward.v_strides);
  in.g = tensor_of(forward.g, forward.g_strides);
  in.beta = tensor_of(forward.beta, forward.beta_strides);
  in.A_log = forward.A_log;
  in.dt_bias = forward.dt_bias;
  in.cu_seqlens = forward.cu_seqlens;
  in.tokens = forward.tokens;
  in.sequences = forward.sequences;
  in.length = problem.varlen ? 0 : forward.tokens / forward.sequences;
  in.value_heads = problem.value_heads;
  in.scale = problem.scale;
  in.lower_bound = problem.lower_bound;
  return in;
}

abi::Outputs outputs_of(const Problem& problem, const Forward& forward) {
  static constexpr StatePool kNoPool;
  return {.o = tensor_of(forward.o, forward.o_strides),
          .initial_state = forward.initial_state,
          .final_state = forward.final_state,
          .pool = pool_of(problem, problem.state_pool ? forward.pool : kNoPool)};
}

void fill_strides(const Problem& problem, Forward& forward) {
  const int h = problem.heads, hv = problem.value_heads;
  const int k = problem.key_dim, v = problem.value_dim;
  const std::int64_t length = forward.tokens / forward.sequences;
  fill(problem, length, h, k, forward.q_strides);
  fill(problem, length, h, k, forward.k_strides);
  fill(problem, length, hv, v, forward.v_strides);
  fill(problem, length, hv, k, forward.g_strides);
  fill(problem, length, hv, 1, forward.beta_strides);
  fill(problem, length, hv, v, forward.o_strides);
}

}  // namespace kda::problem
