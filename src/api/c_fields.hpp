// The fields that the structs of kda.h share with those of kda.hpp, by name: each list complete.
#pragma once

#include <cstddef>
#include <tuple>

#include "api/field_count.hpp"
#include "kda/kda.h"
#include "kda/kda.hpp"

namespace kda::api {

template <class Cpp, class C, class CppStruct, class CStruct>
struct Row {
  const char* name;
  Cpp CppStruct::*cpp;
  C CStruct::*c;
};

template <class Cpp, class C, class CppStruct, class CStruct>
constexpr Row<Cpp, C, CppStruct, CStruct> row(const char* name, Cpp CppStruct::*cpp,
                                              C CStruct::*c) {
  return {name, cpp, c};
}
#define KDA_ROW(Cpp, C, name) row(#name, &Cpp::name, &C::name)

#define KDA_PROBLEM(name) KDA_ROW(Problem, kda_problem, name)
constexpr std::tuple kProblemFields{KDA_PROBLEM(heads),
                                    KDA_PROBLEM(value_heads),
                                    KDA_PROBLEM(key_dim),
                                    KDA_PROBLEM(value_dim),
                                    KDA_PROBLEM(max_tokens),
                                    KDA_PROBLEM(max_sequences),
                                    KDA_PROBLEM(varlen),
                                    KDA_PROBLEM(cu_seqlens_type),
                                    KDA_PROBLEM(qkv_type),
                                    KDA_PROBLEM(gate_type),
                                    KDA_PROBLEM(beta_type),
                                    KDA_PROBLEM(state_type),
                                    KDA_PROBLEM(gate),
                                    KDA_PROBLEM(lower_bound),
                                    KDA_PROBLEM(beta_is_logit),
                                    KDA_PROBLEM(allow_neg_eigval),
                                    KDA_PROBLEM(l2norm_qk),
                                    KDA_PROBLEM(scale),
                                    KDA_PROBLEM(state_layout),
                                    KDA_PROBLEM(initial_state),
                                    KDA_PROBLEM(final_state),
                                    KDA_PROBLEM(state_pool),
                                    KDA_PROBLEM(slot_index_type),
                                    KDA_PROBLEM(draft_states),
                                    KDA_PROBLEM(checkpoint_tokens),
                                    KDA_PROBLEM(zero_padding),
                                    KDA_PROBLEM(mixed_lengths),
                                    KDA_PROBLEM(wy_chunk),
                                    KDA_PROBLEM(committed_tokens),
                                    KDA_PROBLEM(beta_at_most_one),
                                    KDA_PROBLEM(qk_normalized)};
#undef KDA_PROBLEM

#define KDA_OPTIONS(name) KDA_ROW(Options, kda_options, name)
constexpr std::tuple kOptionsFields{KDA_OPTIONS(device),     KDA_OPTIONS(target),
                                    KDA_OPTIONS(effort),     KDA_OPTIONS(time_limit_seconds),
                                    KDA_OPTIONS(stream),     KDA_OPTIONS(cache_dir),
                                    KDA_OPTIONS(wisdom_dir), KDA_OPTIONS(strategy),
                                    KDA_OPTIONS(tuning),     KDA_OPTIONS(cache_mode)};
#undef KDA_OPTIONS

#define KDA_FORWARD(name) KDA_ROW(Forward, kda_forward, name)
constexpr std::tuple kForwardFields{KDA_FORWARD(tokens),
                                    KDA_FORWARD(sequences),
                                    KDA_FORWARD(cu_seqlens),
                                    KDA_FORWARD(q),
                                    KDA_FORWARD(k),
                                    KDA_FORWARD(v),
                                    KDA_FORWARD(g),
                                    KDA_FORWARD(beta),
                                    KDA_FORWARD(A_log),
                                    KDA_FORWARD(dt_bias),
                                    KDA_FORWARD(initial_state),
                                    KDA_FORWARD(o),
                                    KDA_FORWARD(final_state),
                                    KDA_FORWARD(q_strides),
                                    KDA_FORWARD(k_strides),
                                    KDA_FORWARD(v_strides),
                                    KDA_FORWARD(g_strides),
                                    KDA_FORWARD(beta_strides),
                                    KDA_FORWARD(o_strides),
                                    KDA_FORWARD(pool),
                                    KDA_FORWARD(w),
                                    KDA_FORWARD(u),
                                    KDA_FORWARD(committed_tokens)};
#undef KDA_FORWARD

#define KDA_STRIDES(name) KDA_ROW(Strides, kda_strides, name)
constexpr std::tuple kStridesFields{KDA_STRIDES(sequence), KDA_STRIDES(token), KDA_STRIDES(head)};
#undef KDA_STRIDES

#define KDA_TABLE(name) KDA_ROW(IndexTable, kda_index_table, name)
constexpr std::tuple kTableFields{KDA_TABLE(data), KDA_TABLE(columns), KDA_TABLE(stride)};
#undef KDA_TABLE

#define KDA_POOL(name) KDA_ROW(StatePool, kda_state_pool, name)
constexpr std::tuple kPoolFields{KDA_POOL(slots),
                                 KDA_POOL(stride),
                                 KDA_POOL(indices),
                                 KDA_POOL(initial_indices),
                                 KDA_POOL(num_accepted_tokens),
                                 KDA_POOL(checkpoints)};
#undef KDA_POOL
#undef KDA_ROW

// What fails here has a new field: give it to kda.h (at the struct's end) and to its list above.
template <class Cpp, class C, class... Rows>
consteval bool complete(const std::tuple<Rows...>&, std::size_t head) {
  return field_count<Cpp>() == sizeof...(Rows) && field_count<C>() == sizeof...(Rows) + head;
}
static_assert(complete<Problem, kda_problem>(kProblemFields, 1), "kda.h lacks a field of Problem");
static_assert(complete<Options, kda_options>(kOptionsFields, 1), "kda.h lacks a field of Options");
static_assert(complete<Forward, kda_forward>(kForwardFields, 1), "kda.h lacks a field of Forward");
static_assert(complete<Strides, kda_strides>(kStridesFields, 0), "kda.h lacks a field of Strides");
static_assert(complete<IndexTable, kda_index_table>(kTableFields, 0), "kda.h lacks a field");
static_assert(complete<StatePool, kda_state_pool>(kPoolFields, 0), "kda.h lacks a field");

}  // namespace kda::api
