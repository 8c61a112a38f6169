#include "problem/shape.hpp"

#include "problem/problem.hpp"
#include "support/catch.hpp"

using namespace kda;

namespace {

Problem completed(const Problem& problem) {
  const auto result = problem::complete(problem);
  REQUIRE(result);
  return *result;
}

void check_strides(const Strides& strides, std::int64_t sequence, std::int64_t token,
                   std::int64_t head) {
  CHECK(strides.sequence == sequence);
  CHECK(strides.token == token);
  CHECK(strides.head == head);
}

}  // namespace

TEST_CASE("every field that a kernel bakes in reaches its shape", "[problem]") {
  const abi::Shape shape = problem::shape_of(completed({.heads = 2,
                                                        .value_heads = 8,
                                                        .key_dim = 60,
                                                        .value_dim = 100,
                                                        .varlen = true,
                                                        .cu_seqlens_type = Index::i32,
                                                        .qkv_type = DType::f16,
                                                        .gate_type = DType::f32,
                                                        .beta_type = DType::bf16,
                                                        .state_type = DType::bf16,
                                                        .gate = Gate::softplus,
                                                        .beta_is_logit = true,
                                                        .allow_neg_eigval = true,
                                                        .l2norm_qk = false,
                                                        .state_layout = StateLayout::key_first,
                                                        .initial_state = true}));
  CHECK(shape.key_dim == 60);
  CHECK(shape.value_dim == 100);
  CHECK(shape.group == 4);
  CHECK(shape.qkv_type == abi::DType::f16);
  CHECK(shape.gate_type == abi::DType::f32);
  CHECK(shape.beta_type == abi::DType::bf16);
  CHECK(shape.state_type == abi::DType::bf16);
  CHECK(shape.gate == abi::Gate::softplus);
  CHECK(shape.beta_is_logit);
  CHECK(shape.allow_neg_eigval);
  CHECK_FALSE(shape.l2norm_qk);
  CHECK_FALSE(shape.state_value_first);
  CHECK(shape.initial_state);
  CHECK_FALSE(shape.final_state);
  CHECK(shape.varlen);
  CHECK(shape.cu_seqlens_type == abi::Index::i32);
}

TEST_CASE("what no kernel reads does not split the cache", "[problem]") {
  const abi::Shape shape = problem::shape_of(completed({.heads = 1,
                                                        .cu_seqlens_type = Index::i32,
                                                        .state_type = DType::bf16,
                                                        .state_layout = StateLayout::key_first}));
  CHECK(shape.cu_seqlens_type == abi::Index::i64);
  CHECK(shape.state_type == abi::DType::f32);
  CHECK(shape.state_value_first);
}

TEST_CASE("absent strides become the contiguous ones", "[problem]") {
  const Problem p = completed({.heads = 2, .value_heads = 6, .key_dim = 64, .value_dim = 32});
  Forward f{.tokens = 100, .sequences = 4};
  problem::fill_strides(p, f);
  check_strides(f.q_strides, 25 * 128, 128, 64);
  check_strides(f.k_strides, 25 * 128, 128, 64);
  check_strides(f.v_strides, 25 * 192, 192, 32);
  check_strides(f.g_strides, 25 * 384, 384, 64);
  check_strides(f.beta_strides, 25 * 6, 6, 1);
  check_strides(f.o_strides, 25 * 192, 192, 32);
}

TEST_CASE("given strides stay; packed runs have no sequence stride", "[problem]") {
  Forward f{.tokens = 100, .sequences = 4, .q_strides = {7, 8, 9}};
  problem::fill_strides(completed({.heads = 2}), f);
  check_strides(f.q_strides, 7, 8, 9);

  f = Forward{.tokens = 100, .sequences = 3, .q_strides = {7, 8, 9}};
  problem::fill_strides(completed({.heads = 2, .varlen = true}), f);
  check_strides(f.q_strides, 0, 8, 9);
  check_strides(f.k_strides, 0, 256, 128);
}

TEST_CASE("a run's tensors reach the kernels' structs", "[problem]") {
  const Problem p = completed({.heads = 2, .value_heads = 4, .lower_bound = -3, .scale = 0.5F});
  float memory[16] = {};
  Forward f{.tokens = 6, .sequences = 2};
  const void** inputs[] = {&f.q, &f.k, &f.v, &f.g, &f.beta, &f.cu_seqlens, &f.initial_state};
  for (int i = 0; i < 7; ++i) *inputs[i] = memory + i;
  f.A_log = memory + 7;
  f.dt_bias = memory + 8;
  f.o = memory + 9;
  f.final_state = memory + 10;
  f.g_strides = {1, 2, 3};
  problem::fill_strides(p, f);

  const abi::Inputs in = problem::inputs_of(p, f);
  CHECK(in.q.data == f.q);
  CHECK(in.k.data == f.k);
  CHECK(in.v.data == f.v);
  CHECK(in.g.data == f.g);
  CHECK(in.beta.data == f.beta);
  CHECK(in.g.sequence == 1);
  CHECK(in.g.token == 2);
  CHECK(in.g.head == 3);
  CHECK(in.v.token == 4 * 128);
  CHECK(in.A_log == f.A_log);
  CHECK(in.dt_bias == f.dt_bias);
  CHECK(in.cu_seqlens == f.cu_seqlens);
  CHECK(in.tokens == 6);
  CHECK(in.sequences == 2);
  CHECK(in.length == 3);  // of each
  CHECK(in.value_heads == 4);
  CHECK(in.scale == 0.5F);
  CHECK(in.lower_bound == -3);

  const abi::Outputs out = problem::outputs_of(p, f);
  CHECK(out.o.data == f.o);
  CHECK(out.o.token == 4 * 128);
  CHECK(out.initial_state == f.initial_state);
  CHECK(out.final_state == f.final_state);

  const Problem packed = completed({.heads = 2, .value_heads = 4, .varlen = true});
  CHECK(problem::inputs_of(packed, f).length == 0);  // cu_seqlens says
}

// Accepted tokens that do not arrive start each sequence from its last draft.
TEST_CASE("drafts and how many of them were accepted reach the kernels' structs", "[problem]") {
  const Problem p = completed({.heads = 2,
                               .initial_state = true,
                               .final_state = true,
                               .state_pool = true,
                               .draft_states = true});
  CHECK(problem::shape_of(p).draft_states);
  const std::int32_t accepted[2] = {};
  Forward f{.tokens = 6, .sequences = 2};
  f.pool.num_accepted_tokens = accepted;
  CHECK(problem::outputs_of(p, f).pool.num_accepted_tokens == accepted);
}

TEST_CASE("indices have a type where there are some", "[problem]") {
  Problem p = completed({.heads = 2, .final_state = true, .slot_index_type = Index::i64});
  CHECK(problem::shape_of(p).slot_index_type == abi::Index::i32);  // of no kernel's interest
  CHECK_FALSE(problem::shape_of(p).committed_tokens);
  p.committed_tokens = true;
  CHECK(problem::shape_of(p).slot_index_type == abi::Index::i64);
  CHECK(problem::shape_of(p).committed_tokens);
}

TEST_CASE("a state pool reaches the kernels' structs", "[problem]") {
  Problem p = completed({.heads = 2,
                         .key_dim = 64,
                         .value_dim = 32,
                         .initial_state = true,
                         .final_state = true,
                         .state_pool = true,
                         .slot_index_type = Index::i64,
                         .checkpoint_tokens = 128,
                         .zero_padding = true});
  const abi::Shape shape = problem::shape_of(p);
  CHECK(shape.state_pool);
  CHECK(shape.slot_index_type == abi::Index::i64);
  CHECK(shape.checkpoints);
  CHECK(shape.zero_padding);
  CHECK_FALSE(shape.draft_states);

  std::int64_t memory[4] = {};
  Forward f{.tokens = 6, .sequences = 2};
  f.pool = {.slots = 7,
            .indices = {memory, 3, 0},
            .initial_indices = memory + 1,
            .checkpoints = {memory + 2, 5, 9}};
  abi::StatePool pool = problem::outputs_of(p, f).pool;
  CHECK(pool.slots == 7);
  CHECK(pool.stride == 2 * 64 * 32);
  CHECK(pool.indices.data == memory);
  CHECK(pool.indices.stride == 3);
  CHECK(pool.indices.columns == 3);
  CHECK(pool.initial_indices == memory + 1);
  CHECK(pool.num_accepted_tokens == nullptr);
  CHECK(pool.checkpoints.data == memory + 2);
  CHECK(pool.checkpoints.stride == 9);
  CHECK(pool.checkpoint_tokens == 128);
  f.pool.stride = 5000;
  CHECK(problem::outputs_of(p, f).pool.stride == 5000);

  p.state_pool = false;  // then nothing of it does
  CHECK(problem::outputs_of(p, f).pool.indices.data == nullptr);
  CHECK_FALSE(problem::shape_of(p).checkpoints);
}
