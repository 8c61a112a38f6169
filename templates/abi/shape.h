// What a Problem bakes into its kernels: all that a model fixes, nothing that a batch changes.
#pragma once

#include "abi/dtype.h"

namespace kda::abi {

enum class Gate : int { log_decay = 0, softplus = 1, bounded = 2, logsigmoid = 3 };

// Whether the gate reads A_log and dt_bias.
constexpr bool has_parameters(Gate gate) { return gate == Gate::softplus || gate == Gate::bounded; }

struct Shape {
  int key_dim = 128;    // K, 1..256
  int value_dim = 128;  // V, >= 1
  int group = 1;        // HV / H: value heads that share a query/key head

  DType qkv_type = DType::bf16;
  DType gate_type = DType::bf16;
  DType beta_type = DType::bf16;
  DType state_type = DType::f32;

  Gate gate = Gate::bounded;
  bool beta_is_logit = true;
  bool allow_neg_eigval = false;
  bool beta_at_most_one = false;  // of no logit: what is not in [0, 1] becomes NaN
  bool l2norm_qk = true;
  bool qk_normalized = false;  // they come so: what does not may become NaN

  bool state_value_first = true;
  bool initial_state = true;
  bool final_state = true;

  bool varlen = false;
  Index cu_seqlens_type = Index::i64;

  bool state_pool = false;  // states are slots of a pool (tensors.h)
  Index slot_index_type = Index::i32;
  bool draft_states = false;  // the state after every token is kept
  bool checkpoints = false;   // and after every multiple of StatePool::checkpoint_tokens
  bool zero_padding = false;

  bool wy_tensors = false;  // w and u of every chunk are written

  bool committed_tokens = false;  // the final state may be the one after fewer than all tokens
};

}  // namespace kda::abi
