#include "compose/prelude.hpp"

#include <fmt/format.h>

namespace kda::compose {

namespace {

// The enumerators as C++ spells them; the templates' own headers define them.
std::string spelled(abi::DType type) {
  return fmt::format("kda::abi::DType::{}", abi::dtypes[static_cast<int>(type)].name);
}

std::string spelled(abi::Index type) {
  return type == abi::Index::i32 ? "kda::abi::Index::i32" : "kda::abi::Index::i64";
}

std::string spelled(abi::Gate gate) {
  switch (gate) {
    case abi::Gate::log_decay:
      return "kda::abi::Gate::log_decay";
    case abi::Gate::softplus:
      return "kda::abi::Gate::softplus";
    case abi::Gate::logsigmoid:
      return "kda::abi::Gate::logsigmoid";
    case abi::Gate::bounded:
      break;
  }
  return "kda::abi::Gate::bounded";
}

std::string spelled(bool value) { return value ? "true" : "false"; }
std::string spelled(int value) { return std::to_string(value); }

// "{.name = value, ...}"
class Initialiser {
 public:
  template <class Value>
  void add(std::string_view name, Value value) {
    text_ += fmt::format("{}.{} = {}", text_.empty() ? "" : ", ", name, spelled(value));
  }
  std::string text() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

}  // namespace

std::string prelude(const abi::Shape& shape, const tunable::Values& tuning) {
  Initialiser a;  // in the order of abi::Shape, as C++ wants it
  a.add("key_dim", shape.key_dim);
  a.add("value_dim", shape.value_dim);
  a.add("group", shape.group);
  a.add("qkv_type", shape.qkv_type);
  a.add("gate_type", shape.gate_type);
  a.add("beta_type", shape.beta_type);
  a.add("state_type", shape.state_type);
  a.add("gate", shape.gate);
  a.add("beta_is_logit", shape.beta_is_logit);
  a.add("allow_neg_eigval", shape.allow_neg_eigval);
  if (shape.beta_at_most_one) a.add("beta_at_most_one", true);
  a.add("l2norm_qk", shape.l2norm_qk);
  if (shape.qk_normalized) a.add("qk_normalized", true);
  a.add("state_value_first", shape.state_value_first);
  a.add("initial_state", shape.initial_state);
  a.add("final_state", shape.final_state);
  a.add("varlen", shape.varlen);
  a.add("cu_seqlens_type", shape.cu_seqlens_type);
  if (shape.state_pool) a.add("state_pool", true);
  if (shape.state_pool || shape.committed_tokens) a.add("slot_index_type", shape.slot_index_type);
  if (shape.state_pool) {
    a.add("draft_states", shape.draft_states);
    a.add("checkpoints", shape.checkpoints);
    a.add("zero_padding", shape.zero_padding);
  }
  if (shape.wy_tensors) a.add("wy_tensors", true);
  if (shape.committed_tokens) a.add("committed_tokens", true);

  Initialiser b;
  for (const auto& [name, value] : tuning) b.add(name, value);

  return fmt::format("#define KDA_SHAPE {}\n#define KDA_TUNING {}\n", a.text(), b.text());
}

}  // namespace kda::compose
