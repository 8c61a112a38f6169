#include "reference/tensors.hpp"

#include <numeric>

#include "reference/dtype.hpp"
#include "reference/parallel.hpp"

namespace kda::reference {
namespace {

std::vector<int> all_or(const std::vector<int>& heads, int count) {
  if (!heads.empty()) return heads;
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// [rows, heads, columns] of `type` to the chosen heads' doubles.
std::vector<double> gather(DType type, const void* data, std::int64_t rows, int heads,
                           std::int64_t columns, const std::vector<int>& chosen) {
  const auto count = static_cast<std::int64_t>(chosen.size());
  std::vector<double> out(static_cast<std::size_t>(rows * count * columns));
  constexpr std::int64_t kBlock = 64;
  parallel_for((rows + kBlock - 1) / kBlock, [&](std::int64_t block) {
    for (std::int64_t row = block * kBlock; row < std::min(rows, (block + 1) * kBlock); ++row)
      for (std::int64_t h = 0; h < count; ++h)
        for (std::int64_t c = 0; c < columns; ++c)
          out[(row * count + h) * columns + c] =
              load(type, data, static_cast<std::size_t>((row * heads + chosen[h]) * columns + c));
  });
  return out;
}

std::vector<double> gather_floats(const std::vector<float>& data, int columns,
                                  const std::vector<int>& chosen) {
  std::vector<double> out;
  if (data.empty()) return out;
  for (const int head : chosen)
    for (int c = 0; c < columns; ++c) out.push_back(data[std::size_t(head) * columns + c]);
  return out;
}

// [N, HV, K, V] of the chosen heads, whatever the problem's layout.
std::vector<double> gather_state(const Problem& p, const void* data, int sequences,
                                 const std::vector<int>& chosen) {
  const std::int64_t K = p.key_dim, V = p.value_dim;
  std::vector<double> out = gather(p.state_type, data, sequences, p.value_heads, K * V, chosen);
  if (p.state_layout == StateLayout::key_first) return out;
  const std::vector<double> stored = out;
  for (std::int64_t matrix = 0; matrix < std::int64_t(stored.size()) / (K * V); ++matrix)
    for (std::int64_t c = 0; c < K; ++c)
      for (std::int64_t j = 0; j < V; ++j)
        out[matrix * K * V + c * V + j] = stored[matrix * K * V + j * K + c];
  return out;
}

}  // namespace

std::vector<std::int64_t> cu_seqlens_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> out{0};
  for (const std::int64_t length : lengths) out.push_back(out.back() + length);
  return out;
}

Inputs reference_inputs(const Tensors& tensors, const std::vector<int>& heads) {
  const Problem& p = tensors.problem;
  const std::int64_t T = tensors.tokens;
  const std::vector<int> value_heads = all_or(heads, p.value_heads);
  std::vector<int> key_heads = all_or({}, p.heads);
  if (!heads.empty()) {
    key_heads.clear();
    for (const int head : heads) key_heads.push_back(head / (p.value_heads / p.heads));
  }

  Inputs in;
  in.problem = p;
  in.problem.heads = static_cast<int>(key_heads.size());
  in.problem.value_heads = static_cast<int>(value_heads.size());
  in.cu_seqlens = tensors.cu_seqlens;
  in.committed_tokens = tensors.committed_tokens;
  in.q = gather(p.qkv_type, tensors.q.data(), T, p.heads, p.key_dim, key_heads);
  in.k = gather(p.qkv_type, tensors.k.data(), T, p.heads, p.key_dim, key_heads);
  in.v = gather(p.qkv_type, tensors.v.data(), T, p.value_heads, p.value_dim, value_heads);
  in.g = gather(p.gate_type, tensors.g.data(), T, p.value_heads, p.key_dim, value_heads);
  in.beta = gather(p.beta_type, tensors.beta.data(), T, p.value_heads, 1, value_heads);
  in.A_log = gather_floats(tensors.A_log, 1, value_heads);
  in.dt_bias = gather_floats(tensors.dt_bias, p.key_dim, value_heads);
  if (!tensors.initial_state.empty())
    in.initial_state =
        gather_state(p, tensors.initial_state.data(), tensors.sequences(), value_heads);
  return in;
}

std::vector<double> state_values(const Problem& problem, const void* states, int count) {
  return gather_state(problem, states, count, all_or({}, problem.value_heads));
}

Outputs reference_outputs(const Tensors& tensors, const void* o, const void* final_state,
                          const std::vector<int>& heads) {
  const Problem& p = tensors.problem;
  const std::vector<int> chosen = all_or(heads, p.value_heads);
  Outputs out;
  out.o = gather(p.qkv_type, o, tensors.tokens, p.value_heads, p.value_dim, chosen);
  if (final_state != nullptr)
    out.final_state = gather_state(p, final_state, tensors.sequences(), chosen);
  return out;
}

}  // namespace kda::reference
